"""Leave a model, and every random generator, exactly as they were found."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint as checkpointing
from torch import nn

from walkback.errors import InputError


def underneath(model: nn.Module) -> nn.Module:
    """The plain module inside torch.compile, DataParallel and DistributedDataParallel wrappers.

    Hooks that are added to a compiled module do not run, so the module underneath is measured.
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model is {_article(type(model).__name__)}; expected a torch.nn.Module. For numbers measured elsewhere, "
            "build walkback.Measurements and call walkback.judge."
        )
    while True:
        if any("FullyShardedDataParallel" in c.__name__ or c.__name__ == "FSDPModule" for c in type(model).__mro__):
            raise InputError(
                "the model is sharded with FSDP: no process holds a whole layer, so its sites cannot be read. "
                "Gather it first (a full state_dict loaded into a plain copy) and diagnose that."
            )
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Eval mode, no parameter gradients, eager execution; undone on the way out, also after an exception."""
    modes = [(module, module.training) for module in model.modules()]
    compiled = [(m, m.__dict__["_compiled_call_impl"]) for m, _ in modes if m.__dict__.get("_compiled_call_impl")]
    wanted = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.detach().clone(), buffer._version) for buffer in model.buffers()]
    with ExitStack() as stack:
        stack.enter_context(_random_states_kept())
        stack.callback(_restore, modes, compiled, wanted, buffers)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if "torch._dynamo" in sys.modules:
            # Nothing can be compiled before the compiler is imported, and importing it takes seconds.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(_reentrant_checkpoints_made_plain())
        model.eval()
        for module, _ in compiled:
            module._compiled_call_impl = None
        for parameter, _ in wanted:
            # Activation gradients alone are needed, and a parameter's gradient costs as much again.
            parameter.requires_grad_(False)
        yield


def _restore(
    modes: list[tuple[nn.Module, bool]],
    compiled: list[tuple[nn.Module, Any]],
    wanted: list[tuple[nn.Parameter, bool]],
    buffers: list[tuple[torch.Tensor, torch.Tensor, int]],
) -> None:
    for module, training in modes:
        module.training = training
    for module, implementation in compiled:
        module._compiled_call_impl = implementation
    for parameter, requires_grad in wanted:
        parameter.requires_grad_(requires_grad)
    with torch.no_grad():
        for buffer, value, version in buffers:
            if buffer._version != version:
                buffer.copy_(value)


@contextmanager
def _random_states_kept() -> Iterator[None]:
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def _reentrant_checkpoints_made_plain() -> Iterator[None]:
    """Run `checkpoint(..., use_reentrant=True)` as the non-reentrant kind while measuring.

    The reentrant kind hides the graph of a block until the backward pass and refuses
    torch.autograd.grad; the other kind saves the same memory and has neither limit.
    """
    original = checkpointing.CheckpointFunction

    class NonReentrant:
        @staticmethod
        def apply(function: Any, preserve_rng_state: bool, *args: Any) -> Any:
            return checkpointing.checkpoint(
                function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state
            )

    checkpointing.CheckpointFunction = NonReentrant  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        checkpointing.CheckpointFunction = original  # type: ignore[misc]


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
