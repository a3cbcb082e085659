"""What a method does about bf16 and fp16: where a step stays in full precision, and gradients scaled for fp16.

In a run of less than fp32 the passes of a step compute in half precision where torch's autocast says so; weights,
`.grad` and optimizer stay in fp32. In fp16 a small gradient is lost on its way back, so it goes back multiplied by a
scale, and the run divides `.grad` by it before the optimizer's step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeVar

import torch
from torch import Tensor

Precision = Literal["fp32", "bf16", "fp16"]
HALF = (torch.bfloat16, torch.float16)
FROM_DIFFERENCES = (
    "it learns from differences between nearly equal states, and little is left of these once states are rounded to "
    "so few digits"
)
_SCALE: ContextVar[Tensor | None] = ContextVar("scale", default=None)
Accumulate = TypeVar("Accumulate", bound=Callable[..., object])


def in_full(values: Tensor) -> Tensor:
    """The values in fp32 where they are in less, for what needs their digits; others as they are."""
    return values.float() if values.dtype in HALF else values


@contextmanager
def scaled_by(scale: Tensor | None) -> Iterator[None]:
    """While this lasts, `backward` multiplies every gradient by the scale, a number on the device."""
    token = _SCALE.set(scale)
    try:
        yield
    finally:
        _SCALE.reset(token)


def scaled(gradient: Tensor) -> Tensor:
    """What a method adds to `.grad` by its own hand, as large as what `backward` adds."""
    scale = _SCALE.get()
    return gradient if scale is None else gradient * scale


def backward(roots: Sequence[Tensor], pulls: Sequence[Tensor | None]) -> None:
    """Add the gradient of Σ ⟨root, pull⟩ to `.grad`, times the scale of the run; a pull of None is 1."""
    if _SCALE.get() is not None:
        # In fp32: multiplied in fp16, a pull could overflow before it is anywhere.
        pulls = [scaled(torch.ones_like(r) if p is None else in_full(p)) for r, p in zip(roots, pulls, strict=True)]
    torch.autograd.backward(roots, pulls)


def scales_gradients(accumulate: Accumulate) -> Accumulate:
    """Say of an `accumulate` that all it adds to `.grad` goes through `backward` or `scaled`, which fp16 needs."""
    vars(accumulate)["scales_gradients"] = True
    return accumulate
