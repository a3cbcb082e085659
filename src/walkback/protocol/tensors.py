"""Tensors as they are handed about: nested in what functions take and return, in one memory or another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in what a function or module takes or returns, however nested, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, Mapping):
        return tensors_in(list(value.values()))
    if is_dataclass(value) and not isinstance(value, type):
        return tensors_in([getattr(value, field.name) for field in fields(value)])
    return []


def floating_tensors(value: Any) -> list[Tensor]:
    """The floating ones among them."""
    return [tensor for tensor in tensors_in(value) if tensor.is_floating_point()]


def version_of(tensor: Tensor) -> int:
    """How often torch saw the tensor being changed in place."""
    return 0 if tensor.is_inference() else tensor._version


def memory_of(tensor: Tensor) -> int | None:
    """Where the tensor's memory begins; None for sparse ones and for those that stand for others inside torch.func."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return None


def same_memory(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
    if left is right:
        return True
    if left.shape != right.shape or memory_of(left) is None or memory_of(left) != memory_of(right):
        return False
    return left.stride() == right.stride() and left.storage_offset() == right.storage_offset()


def counts_as_step(function: Any, result: Any) -> bool:
    """Whether a function makes or changes a floating tensor; those are counted to find one again in another pass."""
    if isinstance(result, Tensor):
        return result.is_floating_point()
    if result is None:
        return getattr(function, "__name__", "") == "__setitem__"
    return isinstance(result, tuple | list) and bool(floating_tensors(result))
