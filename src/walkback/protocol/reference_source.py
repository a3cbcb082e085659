"""The `reference=` and `gradients=` arguments: where the caller wants the true gradient to come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from torch import nn

from walkback.errors import InputError
from walkback.protocol.batches import Batch
from walkback.protocol.losses import Loss
from walkback.protocol.reference import Reference, as_declared, find_reference, no_gradients
from walkback.protocol.site_choice import Sites
from walkback.protocol.sites import Chain
from walkback.protocol.twin import find_twin
from walkback.protocol.untouched import underneath, untouched

DECLARED = "declared"


@dataclass(frozen=True)
class Source:
    """What was asked for: the network's own gradient where neither says otherwise."""

    twin: nn.Module | None = None
    declared: bool = False
    gradients: bool = True

    @classmethod
    def of(cls, reference: nn.Module | str | None, gradients: bool, with_credit: bool) -> Source:
        """The arguments, checked."""
        if not isinstance(gradients, bool):
            raise InputError(f"gradients= is {gradients!r}; expected True or False.")
        if not gradients and (with_credit or reference is not None):
            other = "credit=" if with_credit else "reference="
            raise InputError(
                f"gradients=False measures no gradient, and {other} is about one. Give one of the two: without "
                "gradients, (a) and the accuracy are measured alone."
            )
        if isinstance(reference, nn.Module):
            return cls(twin=underneath(reference))
        if reference is not None and reference != DECLARED:
            raise InputError(
                f"reference= is {reference!r}; expected a plain twin of the network (an nn.Module of the same "
                f"function), {DECLARED!r} to keep the backward pass that the network declares, or nothing."
            )
        return cls(declared=reference == DECLARED, gradients=gradients)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """The twin, if there is one, left as it was found."""
        with untouched(self.twin) if self.twin is not None else nullcontext():
            yield

    def find(self, model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, sites: Sites = None) -> Reference:
        """The reference that was asked for, checked on the first samples of a batch."""
        if not self.gradients:
            return no_gradients()
        if self.declared:
            return as_declared()
        if self.twin is not None:
            return find_twin(self.twin, chain, batch, loss, sites)
        return find_reference(model, chain, batch, loss)
