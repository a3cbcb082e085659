"""Inputs that a model cannot be run on: which module refused them, what it takes and what it got."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import OutOfMemoryError, Tensor, nn

_TAKES = (("in_features", -1, "features"), ("in_channels", 1, "channels"), ("num_features", 1, "channels"))


def wrong_shape(model: Any, inputs: Any, error: RuntimeError) -> str | None:
    """The message for a call that failed by its shapes; None where the error is about something else."""
    if not isinstance(model, nn.Module) or isinstance(error, OutOfMemoryError):
        return None
    refused = _refused(model, error.__traceback__)
    if refused is None:
        return None
    name, module, got = refused
    misfit = _misfit(module, got, error)
    if misfit is None:
        return None
    where = f"module '{name}' ({type(module).__name__})" if name else type(module).__name__
    return (
        f"the model cannot be run on batches whose inputs are {_described(inputs)}: {where} {misfit}{own_line(error)}. "
        "Pass inputs as the model was trained on, with the same width, axes and type."
    )


def own_line(error: RuntimeError) -> str:
    """The last line outside torch and walkback that the call passed through: the network's own code, if it has any."""
    ours = (Path(torch.__file__).parent, Path(__file__).parents[1])
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(Path(frame.filename).is_relative_to(folder) for folder in ours)]
    return f" (at {own[-1].filename}:{own[-1].lineno})" if own else ""


def _refused(model: nn.Module, trace: TracebackType | None) -> tuple[str, nn.Module, Tensor | None] | None:
    """The innermost module of the model that the error passed through, with its name and what it was handed."""
    names = {module: name for name, module in model.named_modules()}
    found = None
    for owner, variables in _calls(trace):
        if isinstance(owner, nn.Module) and owner in names:
            # A module written in Python has its arguments under their own names; the first tensor is its input.
            got = next((value for value in variables.values() if isinstance(value, Tensor)), None)
            found = names[owner], owner, got
    return found


def _calls(trace: TracebackType | None) -> Iterator[tuple[Any, dict[str, Any]]]:
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name not in ("_call_impl", "_wrapped_call_impl"):
            yield frame.f_locals.get("self"), frame.f_locals
        trace = trace.tb_next


def _misfit(module: nn.Module, got: Tensor | None, error: RuntimeError) -> str | None:
    """What the module takes and what it got; None where that is not seen, as in a forward that multiplies itself."""
    if got is None:
        return None
    weight = getattr(module, "weight", None)
    for attribute, axis, what in _TAKES:
        takes = getattr(module, attribute, None)
        came = got.shape[axis] if got.ndim > 1 else None
        if isinstance(takes, int) and came is not None and came != takes:
            return f"takes {takes} {what} and got {came}"
    shape = getattr(module, "normalized_shape", None)
    if isinstance(shape, tuple) and tuple(got.shape[-len(shape) :]) != shape:
        return f"takes {' × '.join(map(str, shape))} features and got {' × '.join(map(str, got.shape[-len(shape) :]))}"
    if isinstance(weight, Tensor) and got.dtype != weight.dtype and "type" in str(error):
        return f"computes in {_dtype(weight)} and got {_dtype(got)}"
    return None


def _described(inputs: Any) -> str:
    if isinstance(inputs, Tensor):
        return f"{_dtype(inputs)} of shape ({', '.join(['B', *map(str, inputs.shape[1:])])})"
    if isinstance(inputs, dict):
        return ", ".join(f"{name}: {_described(value)}" for name, value in inputs.items())
    if isinstance(inputs, tuple | list):
        return " and ".join(_described(value) for value in inputs)
    return type(inputs).__name__


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
