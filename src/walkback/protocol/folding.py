"""Captured batches folded into figures, one after the other, so that no more than one is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from walkback.errors import BatchError
from walkback.protocol.capture import Capture
from walkback.protocol.diagnostics.known import known
from walkback.protocol.diagnostics.of_others import LEFT_OUT, result_or_left_out
from walkback.protocol.readout_fields import feature_count
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Chain


@dataclass(frozen=True)
class Opening:
    """What the first batch was like, without the batch itself."""

    reduction: TokenReduction
    shapes: tuple[tuple[int, ...], ...]
    """Of h_l, at each site."""
    widths: tuple[int, ...]
    """Of one sample's gradient, at each site; none where no gradient is measured."""

    @classmethod
    def of(cls, seen: Capture) -> Opening:
        """Take down shapes and widths."""
        shapes = tuple(tuple(hidden.shape) for hidden in seen.hiddens)
        return cls(seen.reduction, shapes, tuple(int(vectors.shape[1]) for vectors in seen.grad_vectors))


class Folding:
    """What some diagnostics, all of them where not said, measure on one batch after another."""

    def __init__(self, chain: Chain, diagnostics: Iterable[str] | None = None, gradients: bool = True) -> None:
        self.chain = chain
        self.samples = 0
        self.opening: Opening | None = None
        chosen = known() if diagnostics is None else {name: known()[name] for name in diagnostics}
        self._diagnostics = {
            name: one for name, one in chosen.items() if one.measures and (gradients or not one.needs_gradient)
        }
        self._broken_logits: int | None = None if gradients else 0
        """Samples with NaN or Inf in their logits, where no diagnostic of the gradient counts them."""
        self.parts: dict[str, Any] = {}
        """What each diagnostic has added up so far, by its name."""

    def add(self, seen: Capture) -> None:
        """Fold one batch in."""
        self.opening = self.opening or Opening.of(seen)
        _check_widths(self.opening, seen)
        self.samples += seen.samples
        if self._broken_logits is not None:
            self._broken_logits += int(seen.broken_logits.sum())
        for name in list(self._diagnostics):
            part = self._result(name, "measuring", partial(self._with, name, seen))
            if part is not LEFT_OUT:
                self.parts[name] = part

    def _with(self, name: str, seen: Capture) -> Any:
        diagnostic = self._diagnostics[name]
        part = diagnostic.measure(seen)
        return diagnostic.merge(self.parts[name], part) if name in self.parts else part

    def _result(self, name: str, doing: str, work: Callable[[], Any]) -> Any:
        """What the work returns; where it is that of a diagnostic which fails and is left out, it is forgotten."""
        result = result_or_left_out(self._diagnostics[name], doing, work)
        if result is LEFT_OUT:
            del self._diagnostics[name]
            self.parts.pop(name, None)
        return result

    def fields(self) -> dict[str, Any]:
        """Every diagnostic's figures over all batches, as fields of `Measurements`."""
        assert self.opening is not None
        described = dict.fromkeys(map(self.opening.reduction.describe, self.opening.shapes))
        fields: dict[str, Any] = {
            "sites": tuple(map(str, self.chain.taps)),
            "site_numbers": self.chain.numbers,
            "last_site": self.chain.last if self.chain.numbers else None,
            "site_features": tuple(map(feature_count, self.opening.shapes)),
            "samples": self.samples,
            "site_reduction": "; ".join(described),
        }
        if self._broken_logits is not None:
            fields["nonfinite_logits"] = self._broken_logits
        extra: dict[str, Any] = {}
        for name, part in list(self.parts.items()):
            summary = self._result(name, "summarising", partial(self._summary, name, part))
            for quantity, value in () if summary is LEFT_OUT else summary.items():
                (fields if quantity in Measurements.model_fields else extra)[quantity] = value
        return fields | ({"extra": extra} if extra else {})

    def _summary(self, name: str, part: Any) -> dict[str, Any]:
        summary = dict(self._diagnostics[name].summarise(part))
        others = {quantity: value for quantity, value in summary.items() if quantity not in Measurements.model_fields}
        if others:  # what no record of these sites can hold is refused here, where it is known whose it is
            Measurements(residual_norms=(1.0,) * len(self.chain.taps), extra=others)
        return summary


def _check_widths(first: Opening, seen: Capture) -> None:
    """Widths that change between batches cannot be averaged."""
    for site, (width, now) in enumerate(zip(first.widths, seen.grad_vectors, strict=True)):
        if width != now.shape[1]:
            raise BatchError(
                f"site {site} has the shape {tuple(seen.hiddens[site].shape)} in one batch and "
                f"{first.shapes[site]} in the first; gradients of different widths cannot be averaged. "
                "Pad to one length, or pass tokens='class_token'."
            )
