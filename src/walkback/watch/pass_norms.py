"""The norms that training passes leave behind, and what they say in the protocol's conventions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from walkback.protocol.capture import REFERENCE_BATCH
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAFE_LOW, SAFE_HIGH = 1e-15, 1e18
"""Between these, squares stay so far inside fp32's range that a norm computed there is right."""
NEWS = 1.1
"""A figure that moved by this factor since it was last written is worth another line."""


class PassNorms:
    """One forward and backward pass, as far as it has been seen.

    A full one has the norms of every sample at every site, and of the error, in fp64. A light one only holds the ends
    of the stream and the deepest gradient: the first use of an operation between those of the network takes ten times
    as long as the next, so all of them are looked at together after the pass.
    """

    def __init__(self, sites: int, full: bool) -> None:
        self.full = full
        self.hiddens: list[Tensor] = []
        self.grads: list[Tensor | None] = [None] * sites
        self.error: Tensor | None = None
        """‖∂loss/∂logits‖, of the loss as it was."""
        self.samples = 0
        self.without_gradient = False
        """Whether training brings no gradient back to h_0."""
        self._versions: list[tuple[Tensor, int]] = []

    @property
    def forward_done(self) -> bool:
        """Whether every site was passed on the way forward."""
        return len(self.hiddens) == len(self.grads)

    @property
    def done(self) -> bool:
        """Whether everything that is looked at was seen, forward and back."""
        return self.forward_done and all(grad is not None for grad in (self.grads if self.full else self.grads[-1:]))

    def take(self, site: Tensor, reduction: TokenReduction) -> Tensor:
        """What to keep of a site, (B, …): the norm of each sample, (B,), or in a light pass the site itself."""
        self.samples = len(site)
        if self.full:
            return reduction.norms(site)
        self._versions.append((site, site._version))
        return site

    @property
    def intact(self) -> bool:
        """Whether nothing that a light pass keeps was changed in place since."""
        return all(site._version == version for site, version in self._versions)

    def rows(self) -> NDArray[np.float64]:
        """h_0 … h_L, the gradients and the error, on the CPU: NumPy is faster than torch with so few numbers."""
        found = [row for row in (*self.hiddens, *self.grads, self.error) if row is not None]
        array: NDArray[np.float64] = torch.stack(found).cpu().numpy().astype(np.float64)
        return array


class Level(NamedTuple):
    """Root mean squares over the samples: of the ends of the stream, and of the deepest gradient."""

    first: float
    last: float
    gradient: float

    def much_like(self, other: Level) -> bool:
        """Whether nothing has moved by much."""
        return all(now < NEWS * then and then < NEWS * now for now, then in zip(self, other, strict=True))

    def calm(self, limits: DiagnosticThresholds) -> bool:
        """Whether the gradient and the growth of the whole stream are on the right side of what fires."""
        return bool(self.gradient > limits.g_norm_floor and self.last < limits.h_norm_explosion_ratio * self.first)


def read_in_full(passes: Sequence[PassNorms], factors: Sequence[float]) -> tuple[Measurements, Level]:
    """Medians over the samples of full passes; a factor turns a pass's gradients into each sample's own."""
    sites = len(passes[0].hiddens)
    rows = _joined(passes, factors)
    medians, broken = _medians(rows), (~np.isfinite(rows)).sum(axis=1).tolist()
    measured = Measurements(
        residual_norms=tuple(medians[:sites]),
        bp_grad_norms=tuple(medians[sites : 2 * sites]),
        error_size=medians[2 * sites] * REFERENCE_BATCH if len(medians) > 2 * sites else None,
        samples=rows.shape[1],
        nonfinite_hiddens=tuple(broken[:sites]),
        nonfinite_grads=tuple(broken[sites : 2 * sites]),
    )
    ends = np.sqrt(np.mean(rows[[0, sites - 1, 2 * sites - 1]] ** 2, axis=1))
    return measured, Level(*ends.tolist())


def look_at(seen: PassNorms, reduction: TokenReduction, factor: float) -> Level | None:
    """The level of a light pass; None where a norm left the range in which fp32 is right, or is NaN."""
    ends = (seen.hiddens[0], seen.hiddens[-1], seen.grads[-1])
    first, last, gradient = (_root_mean_square(site, reduction) for site in ends if site is not None)
    if not all(SAFE_LOW < norm < SAFE_HIGH for norm in (first, last, gradient)):
        return None
    return Level(first, last, gradient * factor / REFERENCE_BATCH)


def _root_mean_square(site: Tensor, reduction: TokenReduction) -> float:
    """Over the samples, of their norms in fp32: one operation where it can be, since each one costs."""
    dtype = torch.promote_types(site.dtype, torch.float32)
    if site.ndim == 3 and reduction is TokenReduction.TOKEN_NORMS:
        site = torch.linalg.vector_norm(site, dim=-1, dtype=dtype).mean(dim=1, keepdim=True)
    whole: Tensor = torch.linalg.vector_norm(reduction.vectors(site), dtype=dtype)
    return float(whole) / math.sqrt(len(site))


def _joined(passes: Sequence[PassNorms], factors: Sequence[float]) -> NDArray[np.float64]:
    """The rows of all passes side by side, gradients and errors for a loss averaged over 128 samples."""
    parts = []
    for seen, factor in zip(passes, factors, strict=True):
        part = seen.rows()
        part[len(seen.hiddens) :] *= factor / REFERENCE_BATCH
        parts.append(part)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _medians(values: NDArray[np.float64]) -> list[float]:
    """The usual median of each row, NaN where any value is NaN."""
    ordered = np.sort(values, axis=1)  # NaN sorts last
    count = values.shape[1]
    middle = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    found: list[float] = np.where(np.isnan(ordered[:, -1]), np.nan, middle).tolist()
    return found
