"""Norms, cosines and medians of arrays in fp64, right from 1e-38 to 1e+38: what `protocol/numerics.py` is for torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkback.protocol.reduction import TokenReduction

Array = NDArray[Any]
Doubles = NDArray[np.float64]


def doubles(array: Any) -> Doubles:
    """In fp64; bfloat16 too, which NumPy does not have itself."""
    return np.asarray(array).astype(np.float64, copy=False)


def rows(values: Array, like: Array) -> Array:
    """One value per sample, shaped to be multiplied with arrays that have samples first."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def vectors(reduction: TokenReduction, site: Array) -> Array:
    """One vector per sample, for cosines and means: (B, …) → (B, D)."""
    if site.ndim == 3 and reduction is TokenReduction.CLASS_TOKEN:
        return site[:, 0]
    return site.reshape(len(site), -1)


def site_norms(reduction: TokenReduction, site: Array) -> Doubles:
    """One norm per sample: (B, …) → (B,)."""
    if site.ndim == 3 and reduction is TokenReduction.TOKEN_NORMS:
        mean: Doubles = norms(site).mean(axis=1)
        return mean
    return norms(vectors(reduction, site))


def norms(of: Array) -> Doubles:
    """‖x‖₂ along the last axis: (…, d) → (…)."""
    scaled, scale = _for_squaring(of)
    found: Doubles = np.sqrt(np.einsum("...i,...i->...", scaled, scaled)) * scale
    return found


def cosines(left: Array, right: Array) -> Doubles:
    """cos(x, y) along the last axis; NaN where a vector is zero, and no norm is clamped."""
    x, y = _for_squaring(left)[0], _for_squaring(right)[0]
    squares = (np.einsum("...i,...i->...", each, each) for each in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        sizes = np.prod([np.sqrt(square) for square in squares], axis=0)
        found: Doubles = np.einsum("...i,...i->...", x, y) / sizes
    return found


def _for_squaring(of: Array) -> tuple[Doubles, Doubles]:
    """x and 1; squares of fp64 values can leave its range, so of these x / max|x| and max|x|."""
    wide = doubles(of)
    ones = np.ones(wide.shape[:-1])
    if np.asarray(of).dtype != np.float64 or not wide.size:
        return wide, ones
    largest = np.abs(wide).max(axis=-1)
    scale = np.where(np.isfinite(largest) & (largest > 0), largest, ones)
    return wide / scale[..., None], scale


def median(values: Array) -> Doubles:
    """The usual median along the last axis, NaN where any value is NaN."""
    with np.errstate(invalid="ignore"):
        found: Doubles = np.asarray(np.median(values, axis=-1))
    return found


def broken(arrays: Array) -> NDArray[np.bool_]:
    """Which samples hold a NaN or Inf anywhere, (B,)."""
    finite: NDArray[np.bool_] = np.isfinite(doubles(arrays).reshape(len(arrays), -1))
    found: NDArray[np.bool_] = np.logical_not(finite.all(axis=1))
    return found
