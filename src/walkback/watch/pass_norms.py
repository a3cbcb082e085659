"""The norms that one training pass leaves behind, and what they say in the protocol's conventions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.protocol import numerics
from walkback.protocol.capture import REFERENCE_BATCH
from walkback.protocol.records import Measurements

SAFE_LOW, SAFE_HIGH = 1e-15, 1e18
"""Between these, squares stay so far inside fp32's range that a norm computed there is right."""


class PassNorms:
    """One forward and backward pass, as far as it has been seen: (B,) norms per site."""

    def __init__(self, sites: int) -> None:
        self.hiddens: list[Tensor] = []
        self.grads: list[Tensor | None] = [None] * sites
        self.error: Tensor | None = None
        """‖∂loss/∂logits‖ per sample, of the loss as it was."""

    @property
    def forward_done(self) -> bool:
        """Whether every site was passed on the way forward."""
        return len(self.hiddens) == len(self.grads)

    @property
    def done(self) -> bool:
        """Whether every site was passed, forward and back."""
        return self.forward_done and all(grad is not None for grad in self.grads)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.hiddens[0])


def quick_norms(vectors: Tensor) -> Tensor:
    """‖x‖₂ along the last axis: in fp32 where that is exact enough, else in fp64 as everywhere."""
    if vectors.dtype == torch.float64 or vectors.device.type != "cpu":
        # Off the CPU, looking at the norms to decide would wait for the device at every site.
        return numerics.norms(vectors)
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float32)
    low, high = norms.aminmax()
    return norms if low.item() > SAFE_LOW and high.item() < SAFE_HIGH else numerics.norms(vectors)


def measurements_of(passes: Sequence[PassNorms], factors: Sequence[float]) -> Measurements:
    """Medians over the samples of all passes; a factor turns a pass's gradients into each sample's own."""
    hiddens = torch.cat([torch.stack(seen.hiddens).double() for seen in passes], dim=1)
    grads = torch.cat([_stacked(seen) * factor for seen, factor in zip(passes, factors, strict=True)], dim=1)
    values = torch.stack([hiddens, grads / REFERENCE_BATCH])
    medians = numerics.median(values)
    fields = {"residual_norms": medians[0], "bp_grad_norms": medians[1], "samples": hiddens.shape[1]}
    if not bool(medians.isfinite().all()) or not bool(values.isfinite().all()):
        broken = ~values.isfinite()
        fields |= {"nonfinite_hiddens": broken[0].sum(dim=1), "nonfinite_grads": broken[1].sum(dim=1)}
    errors = [seen.error * factor for seen, factor in zip(passes, factors, strict=True) if seen.error is not None]
    if len(errors) == len(passes):
        fields["error_size"] = numerics.median(torch.cat(errors).double())
    return Measurements(**fields)


def _stacked(seen: PassNorms) -> Tensor:
    return torch.stack([grad for grad in seen.grads if grad is not None]).double()
