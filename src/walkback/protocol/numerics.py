"""Norms, cosines and medians that are right from 1e-38 to 1e+38, in every floating dtype.

Every reduction runs in fp64. fp32, bf16 and fp16 values cannot overflow or underflow there when squared;
fp64 values can, and are divided by their largest entry first.
"""

from __future__ import annotations

import torch
from torch import Tensor


def norms(vectors: Tensor) -> Tensor:
    """‖x‖₂ along the last axis, in fp64: (…, d) → (…)."""
    if vectors.dtype != torch.float64:
        # Converting first is faster than the dtype argument, and exact either way.
        return _root_of_squares(vectors.double())
    scaled, scale = _scaled(vectors)
    return _root_of_squares(scaled) * scale


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """cos(x, y) along the last axis, in fp64: (…, d), (…, d) → (…); NaN where a vector is zero.

    F.cosine_similarity clamps each norm at 1e-8; a gradient at the floor needs the true ratio.
    """
    x, y = _for_squaring(left), _for_squaring(right)
    dots: Tensor = torch.linalg.vecdot(x, y)
    return dots / (_root_of_squares(x) * _root_of_squares(y))


def _root_of_squares(vectors: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return norms


def _for_squaring(vectors: Tensor) -> Tensor:
    return _scaled(vectors)[0] if vectors.dtype == torch.float64 else vectors.double()


def median(values: Tensor) -> Tensor:
    """The usual median along the last axis, NaN where any value is NaN: (…, n) → (…).

    torch.median returns the lower of the two middle values.
    """
    count = values.shape[-1]
    ordered = values.sort(dim=-1).values  # NaN sorts last
    middle = (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2
    return torch.where(ordered[..., -1].isnan(), ordered[..., -1], middle)


def _scaled(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """x / max|x| and max|x|, where that is a positive finite number; else x and 1."""
    if vectors.shape[-1] == 0:
        return vectors, vectors.new_ones(vectors.shape[:-1])
    largest = vectors.abs().amax(dim=-1)
    usable = torch.isfinite(largest) & (largest > 0)
    scale = torch.where(usable, largest, torch.ones_like(largest))
    return vectors / scale.unsqueeze(-1), scale
