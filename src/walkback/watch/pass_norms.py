"""The norms that training passes leave behind, and what they say in the protocol's conventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from walkback.protocol import numerics
from walkback.protocol.capture import REFERENCE_BATCH
from walkback.protocol.records import Measurements, growth
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAFE_LOW, SAFE_HIGH = 1e-15, 1e18
"""Between these, squares stay so far inside fp32's range that a norm computed there is right."""
NEWS = 1.1
"""A figure that moved by this factor since it was last written is worth another line."""


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


def norms(vectors: Tensor, exact: bool) -> Tensor:
    """‖x‖₂ along the last axis; in fp32, which is right between `SAFE_LOW` and `SAFE_HIGH`, unless `exact`."""
    if exact or vectors.dtype == torch.float64:
        return numerics.norms(vectors)
    quick: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float32)
    return quick


@dataclass(frozen=True)
class PassReading:
    """The medians over the samples of one step's passes: plain numbers, since this is made at every step."""

    residual_norms: list[float]
    bp_grad_norms: list[float]
    error_size: float | None
    samples: int
    nonfinite_hiddens: list[int] | None
    nonfinite_grads: list[int] | None

    def measurements(self) -> Measurements:
        """The figures to judge."""
        return Measurements(**{name: getattr(self, name) for name in self.__dataclass_fields__})

    def far_from_firing(self, limits: DiagnosticThresholds) -> bool:
        """Whether all is finite and neither (a) nor (b) can fire; where this is false, the diagnostics decide."""
        if self.nonfinite_hiddens or self.nonfinite_grads or not self.bp_grad_norms[-1] > limits.g_norm_floor:
            return False
        return all(growth(a, b) < limits.h_norm_explosion_ratio for a, b in pairwise(self.residual_norms))

    def much_like(self, other: PassReading) -> bool:
        """Whether the stream and the gradient at the deepest site are about what they were."""
        pairs = ((self.residual_norms, other.residual_norms), (self.bp_grad_norms, other.bp_grad_norms))
        return all(now[-1] < NEWS * before[-1] and before[-1] < NEWS * now[-1] for now, before in pairs)


def reading_of(passes: Sequence[PassNorms], factors: Sequence[float], exact: bool) -> PassReading | None:
    """Medians over the samples of all passes; a factor turns a pass's gradients into each sample's own.

    None where a norm left the range in which fp32 is right: such a pass has to be read exactly.
    """
    sites = len(passes[0].hiddens)
    rows = np.concatenate([_array(seen) for seen in passes], axis=1)
    if not exact and _unsafe(rows):
        return None
    counts = [seen.samples for seen in passes]
    rows[sites:] *= np.repeat(factors, counts)
    rows[sites : 2 * sites] /= REFERENCE_BATCH
    medians = _medians(rows)
    broken = None
    if not np.isfinite(rows).all():
        broken = (~np.isfinite(rows)).sum(axis=1).tolist()
    return PassReading(
        residual_norms=medians[:sites],
        bp_grad_norms=medians[sites : 2 * sites],
        error_size=medians[2 * sites] if len(medians) > 2 * sites else None,
        samples=rows.shape[1],
        nonfinite_hiddens=broken[:sites] if broken else None,
        nonfinite_grads=broken[sites : 2 * sites] if broken else None,
    )


def _array(seen: PassNorms) -> NDArray[np.float64]:
    """Rows h_0 … h_L, g_0 … g_L and the error, on the CPU: NumPy is faster than torch with so few numbers."""
    found = [row for row in (*seen.hiddens, *seen.grads, seen.error) if row is not None]
    array: NDArray[np.float64] = torch.stack(found).cpu().numpy().astype(np.float64)
    return array


def _unsafe(rows: NDArray[np.float64]) -> bool:
    """Whether a norm is too small or too large to trust in fp32; NaN is NaN in any precision."""
    return bool(np.nanmin(rows, initial=1.0) < SAFE_LOW or np.nanmax(rows, initial=1.0) > SAFE_HIGH)


def _medians(values: NDArray[np.float64]) -> list[float]:
    """The usual median of each row, NaN where any value is NaN."""
    ordered = np.sort(values, axis=1)  # NaN sorts last
    count = values.shape[1]
    middle = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    middle[np.isnan(ordered[:, -1])] = np.nan
    found: list[float] = middle.tolist()
    return found
