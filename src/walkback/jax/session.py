"""One measurement of one network: batches in, fields of `Measurements` out."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jaxlib
import numpy as np

from walkback._version import __version__
from walkback.errors import InputError
from walkback.jax.alignment import AlignmentMeter
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture
from walkback.jax.folding import Folding
from walkback.jax.functional import FunctionalMeter
from walkback.jax.initial import InitialMeter
from walkback.jax.losses import Loss, are_probabilities
from walkback.jax.network import Network, Tapped
from walkback.jax.numbers import cosines, doubles, vectors
from walkback.jax.precision import dtype_name
from walkback.jax.readouts import ReadoutMeter
from walkback.jax.reference import Reference, default_reduction, find_reference
from walkback.protocol.diagnostics.known import known
from walkback.protocol.records import Alignment
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference_words import NO_ALIGNMENT
from walkback.protocol.sizes import GONE

OTHERS = (
    "{names} of other packages measure tensors of torch, and were left out: on JAX, walkback has its own diagnostics."
)

UNREAD = (
    "The logits do not depend on {names} of params. A function that takes these weights from elsewhere is measured "
    "with those that it had when it was first called: let it read them from params. If the network does without them, "
    "leave them out."
)
NAMED = 4
"""How many parameters a remark names."""


@dataclass
class Session:
    """What was asked for; `measure` does it."""

    apply: Any
    network: Network
    params: Any
    loss: Loss | None = None
    reduction: TokenReduction | None = None
    reference: Any = None
    gradients: bool = True
    meter: AlignmentMeter | None = None
    tester: FunctionalMeter | None = None
    readouts: ReadoutMeter | None = None
    initial: InitialMeter | None = None
    channels_first: bool = False
    """Whether sites of four axes are (B, C, H, W); else they are (B, H, W, C)."""
    found: Reference | None = None
    """Where the gradient comes from, where that was checked before: what is then in fp64 is of other params."""
    samples: int = field(default=0, init=False)

    def measure(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Every diagnostic's numbers over all batches."""
        folding, checked_before = None, False
        fidelity: dict[str, Any] = {}
        reduction, size = self.reduction or TokenReduction.FLATTEN, 0
        for batch in batches:
            if folding is None or self.found is None:
                checked_before, self.found = self.found is not None, self.found or self._reference(batch)
                folding, size = Folding(self.network.names, self.found.judged, self.channels_first), batch.size
            seen = self.found.capture(self.params, batch, reduction, folding.samples, size)
            if not folding.samples:
                check_outputs(seen, self.loss, self.found.measured)
                reduction = self.reduction or (default_reduction(seen.grads[-1]) if seen.grads else reduction)
                seen = replace(seen, reduction=reduction)
                if self.found.judged and not checked_before:
                    fidelity = fidelity_fields(seen, self.found.exact)
            folding.add(seen)
            self._meters(batch, seen, self.found)
        assert folding is not None
        assert self.found is not None
        self.samples = folding.samples
        fields = folding.fields() | fidelity | {"reference_check": self.found.check}
        return fields | self._later(self.found)

    def _reference(self, batch: Batch) -> Reference:
        return find_reference(self.apply, self.network, self.params, batch, self.loss, self.reference, self.gradients)

    def _meters(self, batch: Batch, seen: Capture, found: Reference) -> None:
        if self.meter is not None:
            if not found.measured:
                self.meter.unavailable = found.check.reason
            self.meter.add(seen)
        if self.readouts is not None:
            self.readouts.add(seen)
        for kept in (self.initial, self.tester):
            if kept is not None:
                kept.keep(batch, seen)

    def _later(self, found: Reference) -> dict[str, Any]:
        """What needs all batches, or passes of its own."""
        fields: dict[str, Any] = {}
        if self.tester is not None:
            fields |= self.tester.fields(found.own, self.params)
        if self.readouts is not None:
            fields |= self.readouts.fields()
        if self.initial is not None:
            fields |= self.initial.fields(found.own, self.params)
        if not self.gradients:
            fields["alignment"] = Alignment(unavailable=NO_ALIGNMENT)
        elif self.meter is not None:
            fields["alignment"] = self.meter.measured()
        return fields

    def warnings(self) -> list[str]:
        """What a reader should know about the credit, and about diagnostics that were left out."""
        assert self.found is not None
        told = self.meter.warnings(self.samples, self.found.check.passed is True) if self.meter is not None else []
        return _never_read(self.found.unread) + told + left_out()

    def provenance(self) -> dict[str, str]:
        """What a reader needs to measure the same again."""
        leaf = next((leaf for leaf in jax.tree.leaves(self.params) if isinstance(leaf, jax.Array)), None)
        device = str(next(iter(leaf.devices())).platform) if leaf is not None else jax.default_backend()
        kind = "found in modules" if isinstance(self.network, Tapped) else "given"
        return {
            "walkback": __version__,
            "jax": jax.__version__,
            "jaxlib": jaxlib.__version__,
            "python": platform.python_version(),
            "model": getattr(self.apply, "__name__", type(self.apply).__name__),
            "blocks": f"{', '.join(self.network.names)} ({kind})",
            "loss": "cross-entropy" if self.loss is None else "given",
            "device": device,
            "precision": dtype_name(self.params),
        }


def _never_read(names: tuple[str, ...]) -> list[str]:
    """That some parameters play no part in the network, in a sentence; none where all do."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [UNREAD.format(names=", ".join(names[:NAMED]) + more)] if names else []


def left_out() -> list[str]:
    """Diagnostics of other packages that measure by themselves, in a sentence; none where there are none."""
    own = "walkback"
    others = [one for one in known().values() if one.measures and one.__module__.partition(".")[0] != own]
    names = ", ".join(f"({one.letter}) {one.title}" for one in others)
    return [OTHERS.format(names=names)] if others else []


def check_outputs(seen: Capture, loss: Loss | None, with_error: bool) -> None:
    """Refuse probabilities where cross-entropy was presumed: it would put a second softmax on them."""
    if loss is None and (with_error or seen.logits.ndim == 3) and are_probabilities(seen.logits):
        raise InputError(
            f"apply returns probabilities (its outputs of shape {seen.logits.shape} are at least 0 and sum to 1), and "
            "cross-entropy, which is taken where no loss= is given, expects logits: it would put a second softmax on "
            "them. Return the logits, or pass the loss that the network was trained with."
        )


def fidelity_fields(seen: Capture, exact: Capture | str) -> dict[str, Any]:
    """How well the captured gradients of a batch agree with those of its first samples in fp64."""
    if all(hidden.dtype == np.float64 for hidden in seen.hiddens):
        return {"reference_fidelity": (1.0,) * len(seen.hiddens)}
    if isinstance(exact, str):
        return {"no_fidelity": exact}
    return {"reference_fidelity": tuple(_agreements(seen, exact))}


def _agreements(seen: Capture, exact: Capture) -> Iterable[float]:
    for rounded, doubled in zip(seen.grads, exact.grads, strict=True):
        mine = vectors(seen.reduction, rounded)[: exact.samples]
        other = vectors(seen.reduction, doubled)
        each = cosines(mine, other)
        gone = (abs(doubles(mine)) < GONE).all(axis=1) & (abs(doubles(other)) < GONE).all(axis=1)
        # One that is zero in working precision alone has lost its direction altogether.
        yield float(np.where(gone, 1.0, np.nan_to_num(each)).mean())
