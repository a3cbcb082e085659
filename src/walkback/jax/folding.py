"""Captured batches folded into numbers, one after the other, so that no more than one is held."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkback.errors import BatchError
from walkback.jax.capture import Capture
from walkback.jax.losses import Answers
from walkback.jax.numbers import Doubles, broken, doubles, median, norms
from walkback.protocol.diagnostics.idle_block import CHANGES
from walkback.protocol.drift_share import GROUP_SIZE
from walkback.protocol.group_figures import group_fields
from walkback.protocol.pairing import Answered
from walkback.protocol.readout_fields import feature_count
from walkback.protocol.scores import Score
from walkback.protocol.sizes import REFERENCE_BATCH
from walkback.protocol.uncertainty import medians_with_intervals


def _changes(seen: Capture) -> Doubles:
    """‖h_l(x) − h_{l−1}(x)‖ / ‖h_{l−1}(x)‖, (blocks, B), over all tokens; 1 where the two have different shapes."""
    flat = [doubles(hidden).reshape(len(hidden), -1) for hidden in seen.hiddens]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.array(
            [
                norms(after - before) / norms(before) if one.shape == other.shape else np.ones(len(one))
                for (one, other), (before, after) in zip(pairwise(seen.hiddens), pairwise(flat), strict=True)
            ]
        ).reshape(-1, seen.samples)


class Groups:
    """Sums of gradients over groups of 128 samples, numbered by the place of their samples in the stream."""

    def __init__(self) -> None:
        self.totals: dict[int, Doubles] = {}
        self.squares: dict[int, Doubles] = {}
        self.sizes: dict[int, int] = {}
        self.widths: tuple[int, ...] = ()

    def add(self, seen: Capture) -> None:
        """Split a batch where a group ends, and add up."""
        self.widths = tuple(each.shape[1] for each in seen.grad_vectors)
        squares = np.square(seen.direction_norms)
        start = 0
        while start < seen.samples:
            number = (seen.offset + start) // GROUP_SIZE
            part = slice(start, min(seen.samples, (number + 1) * GROUP_SIZE - seen.offset))
            total = np.concatenate([seen.scale[part] @ doubles(each[part]) for each in seen.grad_vectors])
            self.totals[number] = self.totals.get(number, 0.0) + total
            self.squares[number] = self.squares.get(number, 0.0) + squares[:, part].sum(axis=1)
            self.sizes[number] = self.sizes.get(number, 0) + part.stop - start
            start = part.stop

    def fields(self, middle: int) -> dict[str, Any]:
        """(c) and ρ."""
        numbers = sorted(self.sizes)
        totals, squares = (np.stack([table[n] for n in numbers]) for table in (self.totals, self.squares))
        sizes = np.array([self.sizes[n] for n in numbers], dtype=np.float64)
        return group_fields(totals, squares, sizes, self.widths, middle)


class Folding:
    """What the diagnostics measure on one batch after another."""

    def __init__(self, names: tuple[str, ...], gradients: bool, channels_first: bool = False) -> None:
        self.names, self.gradients, self.samples = names, gradients, 0
        self.channels_first = channels_first
        self.features: tuple[int, ...] = ()
        self.parts: dict[str, list[NDArray[Any]]] = {}
        self.groups = Groups()
        self.answers: list[Answers] = []
        self.counted = True
        self.described: dict[str, None] = {}
        self.shapes: list[tuple[int, ...]] = []

    def add(self, seen: Capture) -> None:
        """Fold one batch in."""
        shapes = [hidden.shape for hidden in seen.hiddens]
        self._check_widths(shapes, seen)
        self.features = self.features or tuple(feature_count(shape, self.channels_first) for shape in shapes)
        self.described |= dict.fromkeys(map(seen.reduction.describe, shapes))
        self.samples += seen.samples
        self._keep("hidden", seen.hidden_norms)
        self._keep("broken_hidden", seen.broken_hiddens)
        self._keep("ends", seen.stream_norms[[0, -1]])
        self._keep("changes", _changes(seen))
        self._keep("broken_logits", broken(seen.logits)[None])
        if self.gradients:
            self._keep("grad", seen.grad_norms)
            self._keep("broken_grad", seen.broken_grads)
            self._keep("error", seen.error_norms[None])
            self.groups.add(seen)
        self.counted = self.counted and seen.classes is not None
        if seen.classes is not None:
            self.answers.append(Answers.of(seen.logits, seen.classes))

    def _keep(self, name: str, rows: NDArray[Any]) -> None:
        self.parts.setdefault(name, []).append(rows)

    def _all(self, name: str) -> NDArray[Any]:
        return np.concatenate(self.parts[name], axis=1)

    def _check_widths(self, shapes: list[tuple[int, ...]], seen: Capture) -> None:
        widths = [each.shape[1:] for each in seen.grad_vectors] or [shape[1:] for shape in shapes]
        self.shapes = self.shapes or widths
        for site, (first, now) in enumerate(zip(self.shapes, widths, strict=True)):
            if first != now and self.gradients:
                raise BatchError(
                    f"site {site} has {now} values per sample in one batch and {first} in the first; gradients of "
                    "different widths cannot be averaged. Pad to one length, or pass tokens='class_token'."
                )

    def fields(self) -> dict[str, Any]:
        """Every number over all batches, as fields of `Measurements`."""
        norms = self._all("hidden")
        medians, intervals = medians_with_intervals(norms)
        fields: dict[str, Any] = {
            "sites": (f"input of {self.names[0]}", *self.names),
            "site_features": self.features,
            "samples": self.samples,
            "site_reduction": "; ".join(self.described),
            "residual_norms": medians,
            "residual_norm_intervals": intervals,
            "nonfinite_hiddens": self._all("broken_hidden").sum(axis=1),
            "nonfinite_logits": int(self._all("broken_logits").sum()),
        }
        fields |= self._total_growth() | self._block_changes() | self._accuracy()
        return fields | (self._of_gradient(norms) if self.gradients else {})

    def _of_gradient(self, hidden: Doubles) -> dict[str, Any]:
        grads, error = self._all("grad"), self._all("error")[0]
        medians, intervals = medians_with_intervals(grads / REFERENCE_BATCH)
        # A sample without any error has no gradient, and 0/0 says nothing about the scale of the others.
        some = error != 0
        found: dict[str, Any] = {
            "bp_grad_norms": medians,
            "bp_grad_norm_intervals": intervals,
            "error_size": float(median(error)),
            "nonfinite_grads": self._all("broken_grad").sum(axis=1),
        }
        if some.any():
            with np.errstate(invalid="ignore", over="ignore"):
                found["scale_free_gradients"] = median(hidden[:, some] * grads[:, some] / error[some])
                per_error = grads[-1:, some] / error[some] / REFERENCE_BATCH
            ratio, bounds = medians_with_intervals(per_error)
            found |= {"gradient_per_error": ratio[0], "gradient_per_error_interval": bounds[0] if bounds else None}
        return found | self.groups.fields(len(self.names) // 2)

    def _block_changes(self) -> dict[str, Any]:
        """How much every block changes the stream, of samples whose numbers are all finite."""
        changes = self._all("changes")
        finite = np.isfinite(changes).all(axis=0)
        return {"extra": {CHANGES: tuple(median(changes[:, finite]).tolist())}} if len(changes) and finite.any() else {}

    def _total_growth(self) -> dict[str, Any]:
        first, last = self._all("ends")
        some = first != 0
        if not some.any():
            return {}
        with np.errstate(invalid="ignore", over="ignore"):
            ratio, bounds = medians_with_intervals((last[some] / first[some])[None])
        return {"total_growth": ratio[0], "total_growth_interval": bounds[0] if bounds else None}

    def _accuracy(self) -> dict[str, Any]:
        if not self.counted or not sum(len(each.right) for each in self.answers):
            return {}
        right = np.concatenate([each.right for each in self.answers])
        samples = sum(each.samples for each in self.answers)
        several = len(right) if len(right) != samples else None
        score = Score(value=float(right.sum()) / len(right), samples=samples, answers=several)
        found: dict[str, Any] = {
            "headline_acc": score.value, "headline_samples": score.samples, "headline_answers": score.answers,
            "classes": self.answers[0].classes,
        }  # fmt: skip
        surprises = [each.surprise for each in self.answers]
        if None not in surprises:
            mean = sum(s for s in surprises if s is not None) / len(right)
            perplexity = float(np.exp(mean)) if mean < 700 or mean != mean else float("inf")
            return found | {"perplexity": perplexity, "tokens": len(right)}
        if several is None:
            found["headline_correct"] = Answered.of(right, np.concatenate([each.labels for each in self.answers]))
        return found
