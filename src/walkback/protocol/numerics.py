"""Norms, cosines and medians that are right from 1e-38 to 1e+38, in every floating dtype.

Reductions run in fp64. fp32, bf16 and fp16 values cannot overflow or underflow there when squared; fp64 values
can, and are divided by their largest entry first. Only norms of fp32 values far from both ends of its range take
a shorter way, with short sums in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def norms(vectors: Tensor) -> Tensor:
    """‖x‖₂ along the last axis, in fp64: (…, d) → (…)."""
    return norms_of_each([vectors])[0]


def norms_of_each(several: Sequence[Tensor]) -> Tensor:
    """‖x‖₂ along the last axis of tensors with the same leading axes, in fp64: [(…, d_l)] → (number, …)."""
    quick = _norms_in_chunks(several) if all(map(_can_be_chunked, several)) else None
    return quick if quick is not None else torch.stack([_careful_norms(vectors) for vectors in several])


def _careful_norms(vectors: Tensor) -> Tensor:
    if vectors.dtype == torch.float64:
        scaled, scale = _scaled(vectors)
        return _root_of_squares(scaled) * scale
    return _root_of_squares(vectors.double())


CHUNK = 256
"""So few squares are summed in fp32 at a time that rounding stays far below the sixth digit."""
SAFE_SMALLEST, SAFE_LARGEST = 1e-15, 1e15
"""Between these the squares of a vector and their sum are well inside the range of fp32."""


def _can_be_chunked(vectors: Tensor) -> bool:
    width = vectors.shape[-1]
    return vectors.dtype == torch.float32 and vectors.numel() > 0 and width % min(CHUNK, width) == 0


def _norms_in_chunks(several: Sequence[Tensor]) -> Tensor | None:
    """The norms from fp32 norms of short chunks, joined in fp64; None where fp32 could over- or underflow.

    Several times faster than converting all values first, and what a healthy network needs.
    """
    chunks = [_root_of_squares(v.reshape(*v.shape[:-1], -1, min(CHUNK, v.shape[-1]))) for v in several]
    together = torch.cat(chunks, dim=-1)
    smallest, largest = torch.aminmax(together)
    if not (smallest >= SAFE_SMALLEST and largest <= SAFE_LARGEST):  # NaN too
        return None
    counts = [chunk.shape[-1] for chunk in chunks]
    if set(counts) == {1}:
        return together.double().movedim(-1, 0)
    return torch.stack([_root_of_squares(part) for part in torch.split(together.double(), counts, dim=-1)])


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
