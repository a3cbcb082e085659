"""One batch as the diagnostics see it: h_l, g_l, logits and error as arrays, and the norms of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from walkback.jax.batches import Batch
from walkback.jax.losses import Whole, classes_of, cross_entropy_error, factors, indices_of, require_classes
from walkback.jax.numbers import Array, Doubles, broken, doubles, norms, rows, site_norms, vectors
from walkback.jax.precision import host
from walkback.jax.program import Pass, Program, ran
from walkback.protocol.reduction import TokenReduction

HALF_LARGEST, HALF_SMALLEST, HALF_UPSTREAM = 2.0**13, 2.0**6, 15
"""Where the largest entry of a scaled fp16 gradient should lie, far from both ends of the range, and the largest
exponent that the error at the logits itself can have."""


@dataclass(frozen=True)
class Capture:
    """What one batch shows. Gradients are of each sample's own loss, not divided by any batch size."""

    hiddens: Sequence[Array]
    logits: Array
    targets: NDArray[Any]
    classes: Whole | None
    """Of each sample or token; None where targets are something else."""
    grads: Sequence[Array]
    """∂ℓ(x)/∂h_l(x) over `scale`; none where no gradient is measured."""
    scale: Doubles
    """What a sample's gradients are to be multiplied with, (B,)."""
    error: Doubles
    """∂ℓ/∂logits; NaN where it was not asked for."""
    reduction: TokenReduction
    offset: int = 0
    hidden_rows: Sequence[Doubles] | None = None
    grad_rows: Sequence[Doubles] | None = None
    """Norms of the rows of every site, (B, R), where the device computed them."""

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.targets)

    @cached_property
    def hidden_norms(self) -> Doubles:
        """‖h_l(x)‖, (sites, B)."""
        return self._norms(self.hiddens, self.hidden_rows)

    @cached_property
    def stream_norms(self) -> Doubles:
        """‖h_l(x)‖ over all tokens and channels, (sites, B), whatever stands for a sample elsewhere."""
        if self.reduction is TokenReduction.FLATTEN or all(hidden.ndim != 3 for hidden in self.hiddens):
            return self.hidden_norms
        return replace(self, reduction=TokenReduction.FLATTEN).hidden_norms

    @cached_property
    def grad_norms(self) -> Doubles:
        """‖∂ℓ(x)/∂h_l(x)‖, (sites, B)."""
        return self._norms(self.grads, self.grad_rows) * self.scale

    def _norms(self, sites: Sequence[Array], row_norms: Sequence[Doubles] | None) -> Doubles:
        if row_norms is None:
            return np.stack([site_norms(self.reduction, site) for site in sites])
        return np.stack([_of_rows(self.reduction, *pair) for pair in zip(sites, row_norms, strict=True)])

    @cached_property
    def direction_norms(self) -> Doubles:
        """The norms of `grad_vectors` times the scale, (sites, B)."""
        if self.reduction is not TokenReduction.TOKEN_NORMS:
            return self.grad_norms
        return replace(self, reduction=TokenReduction.FLATTEN).grad_norms

    @cached_property
    def grad_vectors(self) -> list[Array]:
        """The gradients over `scale` as one vector per sample, (B, D_l) for each site."""
        return [vectors(self.reduction, grad) for grad in self.grads]

    @cached_property
    def error_norms(self) -> Doubles:
        """‖∂ℓ(x)/∂logits(x)‖, (B,)."""
        return norms(self.error.reshape(self.samples, -1))

    @property
    def broken_hiddens(self) -> NDArray[np.bool_]:
        """Samples with a NaN or Inf in h_l, (sites, B)."""
        return _broken(self.hiddens, self.hidden_rows)

    @property
    def broken_grads(self) -> NDArray[np.bool_]:
        """Samples with a NaN or Inf in ∂ℓ/∂h_l, (sites, B)."""
        return _broken(self.grads, self.grad_rows) | ~np.isfinite(self.scale)


def _of_rows(reduction: TokenReduction, site: Array, row_norms: Doubles) -> Doubles:
    if site.ndim == 3 and reduction is TokenReduction.CLASS_TOKEN:
        return row_norms[:, 0]
    if site.ndim == 3 and reduction is TokenReduction.TOKEN_NORMS:
        mean: Doubles = row_norms.mean(axis=1)
        return mean
    return norms(row_norms)


def _broken(sites: Sequence[Array], row_norms: Sequence[Doubles] | None) -> NDArray[np.bool_]:
    # Rows are all of a site, and their norms show every NaN and Inf in it.
    return np.stack([broken(each) for each in (sites if row_norms is None else row_norms)])


def capture(
    program: Program, params: Any, batch: Batch, reduction: TokenReduction, offset: int = 0, size: int = 0
) -> Capture:
    """Measure one batch, filled up to `size` samples on the way."""
    full = batch.padded(size)
    seen = _passed(program, params, full, targets_for(program, params, full))
    return captured(program, seen, batch, reduction, offset)


def targets_for(program: Program, params: Any, batch: Batch) -> NDArray[Any]:
    """The targets as the loss takes them: class indices for cross-entropy, else as they are."""
    if program.loss is not None:
        return batch.targets
    shape = ran(lambda: program.logits_shape(params, batch.inputs))
    return require_classes(batch.targets, shape)


def captured(program: Program, seen: Pass, batch: Batch, reduction: TokenReduction, offset: int = 0) -> Capture:
    """What a pass showed of a batch, which may have been filled up."""
    count = batch.size
    logits, error = host(seen.logits)[:count], host(seen.error)[:count]
    classes = classes_of(batch.targets, logits.shape)
    if program.loss is None:
        known = require_classes(batch.targets, logits.shape)
        scale, error = factors(doubles(logits), known), cross_entropy_error(doubles(logits), known)
    else:
        scale = np.exp2(doubles(seen.exponent)[:count])
        error = doubles(error) * rows(scale, error)
    return Capture(
        tuple(host(h)[:count] for h in seen.hiddens), logits, batch.targets, classes,
        tuple(host(g)[:count] for g in seen.grads), scale, error, reduction, offset,
        _rows(seen.hidden_rows, count), _rows(seen.grad_rows, count),
    )  # fmt: skip


def _rows(of_sites: Sequence[Any] | None, count: int) -> list[Doubles] | None:
    if of_sites is None:
        return None
    with np.errstate(invalid="ignore"):
        return [doubles(largest)[:count] * doubles(share)[:count] for largest, share in of_sites]


def _passed(program: Program, params: Any, batch: Batch, targets: NDArray[Any]) -> Pass:
    """One pass; fp16 gradients underflow inside, so theirs is made again, each sample scaled by powers of two."""
    exponent = np.zeros(batch.size, np.float32)
    ceiling = np.full(batch.size, HALF_UPSTREAM, np.float32)
    seen: Pass = ran(lambda: program.passed(params, batch.inputs, targets, exponent))
    if jnp.float16 not in {seen.logits.dtype.type, *(h.dtype.type for h in seen.hiddens)}:
        return seen
    for _ in range(8):
        largest = np.max([np.abs(doubles(g)).reshape(batch.size, -1).max(axis=1) for g in seen.grads], axis=0)
        ceiling = np.where(np.isfinite(largest), ceiling, exponent - 3)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.floor(np.log2(HALF_LARGEST / largest))
        better = np.minimum(np.where(largest < HALF_SMALLEST, exponent + room, exponent), ceiling).astype(np.float32)
        if np.array_equal(better, exponent):
            break
        exponent = better
        seen = program.passed(params, batch.inputs, targets, exponent)
    back = np.exp2(-exponent.astype(np.float64))
    grads = tuple(doubles(grad) * rows(back, host(grad)) for grad in seen.grads)
    return seen._replace(grads=grads, grad_rows=None)


def capture_stream(program: Program, params: Any, batch: Batch, reduction: TokenReduction, offset: int = 0) -> Capture:
    """Measure one batch without any gradient: h_l and the logits alone."""
    found, sites = ran(lambda: program.stream(params, batch.inputs))
    logits = host(found)
    classes = classes_of(batch.targets, logits.shape)
    error = np.full(logits.shape, np.nan)
    if program.loss is None and indices_of(batch.targets, logits.shape) is not None and logits.ndim in (2, 3):
        error = cross_entropy_error(doubles(logits), require_classes(batch.targets, logits.shape))
    hiddens = tuple(map(host, sites))
    return Capture(hiddens, logits, batch.targets, classes, (), np.ones(batch.size), error, reduction, offset)
