"""Leave a model, and every random generator, exactly as they were found."""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.modules.module as all_modules
import torch.utils.checkpoint as checkpointing
from torch import nn
from torch.nn.parameter import is_lazy

from walkback.errors import InputError
from walkback.protocol.pass_state import passes_alike


def underneath(model: nn.Module) -> nn.Module:
    """The plain module inside torch.compile, DataParallel and DistributedDataParallel wrappers.

    Hooks that are added to a compiled module do not run, so the module underneath is measured.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model is {_what(model)}; expected a torch.nn.Module. {_remedy(model)}")
    while isinstance(inner := getattr(model, _wraps(model), None), nn.Module):
        model = inner
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            "the model is TorchScript, which takes no hooks, so its sites cannot be read. Diagnose the nn.Module that "
            "it was made from, with the same weights."
        )
    if any(_is_sharded(type(module)) for module in model.modules()):
        raise InputError(
            "the model is sharded with FSDP: no process holds a whole layer, so its sites cannot be read. "
            "Gather it first (a full state_dict loaded into a plain copy) and diagnose that."
        )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        _require_values(name, tensor)
    return model


def _require_values(name: str, tensor: torch.Tensor) -> None:
    if is_lazy(tensor):
        raise InputError(
            f"{name} of the model has no shape yet, as in LazyLinear before its first call. Call the model once on a "
            "batch, load its trained weights, and diagnose it then."
        )
    if tensor.is_meta:
        raise InputError(
            f"{name} of the model is on the device meta, which has no values. Load the trained weights first, such as "
            "by model.to_empty(device='cpu') and load_state_dict."
        )


def _wraps(model: nn.Module) -> str:
    """The attribute under which a wrapper keeps the model, or one that nothing has."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return "module"
    return "_orig_mod"


def _is_sharded(kind: type) -> bool:
    return any("FullyShardedDataParallel" in c.__name__ or c.__name__ == "FSDPModule" for c in kind.__mro__)


def _what(model: object) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}"
    name = type(model).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _remedy(model: object) -> str:
    if isinstance(model, type) and issubclass(model, nn.Module):
        return f"Build it first: {model.__name__}(…)."
    return "For numbers measured elsewhere, build walkback.Measurements and call walkback.judge."


@contextmanager
def untouched(model: nn.Module) -> Iterator[AsFound]:
    """Eval mode, no parameter gradients, no backward hooks, eager execution, and every forward pass from the state that
    the model came with; undone also after an exception.

    What it gives puts the hooks back for a while, for code that is to meet the model's own backward pass.
    """
    with ExitStack() as stack:
        stack.enter_context(random_states_kept())
        stack.enter_context(_global_backward_hooks_off())
        modules = list(model.modules())
        before = _Before(modules)
        stack.callback(before.restore)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if "torch._dynamo" in sys.modules:
            # Nothing can be compiled before the compiler is imported, and importing it takes seconds.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(_reentrant_checkpoints_made_plain())
        stack.enter_context(_fused_attention_off())
        _make_measurable(modules)
        stack.enter_context(passes_alike(model))
        yield before.hooks_back


AsFound = Callable[[], AbstractContextManager[None]]
"""A context in which the backward hooks of a model's modules are there, as they were found."""


def _make_measurable(modules: Sequence[nn.Module]) -> None:
    for module in modules:
        # Not model.eval(): an override of it may do more, such as merging weights, that nothing here could undo.
        if hasattr(module, "training"):
            module.training = False
        # A backward hook can replace the gradient, which is how some libraries teach; g_l is the true one.
        vars(module).update((name, _NoHooks()) for name in BACKWARD_HOOKS if name in vars(module))
    for parameter in _parameters(modules):
        # Activation gradients alone are needed, and a parameter's gradient costs as much again.
        parameter.requires_grad_(False)


def _parameters(modules: Sequence[nn.Module]) -> list[torch.Tensor]:
    """Their parameters, each once: what the model's own iterator takes many walks over the tree for."""
    held = (tensor for module in modules for tensor in module._parameters.values() if tensor is not None)
    return list(dict.fromkeys(held))


BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")


class _NoHooks(OrderedDict[int, Any]):
    """Hooks, of which there are none: what a forward pass registers is not kept either."""

    def __setitem__(self, key: int, hook: Any) -> None:
        pass


class _Before:
    """What a model was like, to be put back."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        # A scripted module has its mode, and no hooks, elsewhere than in its dictionary; a frozen one has no mode.
        self.modes = [(module, module.training) for module in modules if hasattr(module, "training")]
        self.hooks = [
            (module, {name: vars(module)[name] for name in BACKWARD_HOOKS if name in vars(module)})
            for module in modules
        ]
        self.wanted = [(parameter, parameter.requires_grad) for parameter in _parameters(modules)]
        # Feedback that is drawn anew in every pass is a parameter put in the place of another.
        stores = [module._parameters for module in modules if isinstance(module._parameters, dict)]
        self.slots = [(store, dict(store)) for store in stores if store]

    @contextmanager
    def hooks_back(self) -> Iterator[None]:
        """With the backward hooks of the modules, for as long as the context lasts."""
        hooked = [(module, hooks) for module, hooks in self.hooks if any(hooks.values())]
        for module, hooks in hooked:
            vars(module).update(hooks)
        try:
            yield
        finally:
            for module, hooks in hooked:
                vars(module).update((name, _NoHooks()) for name in hooks)

    def restore(self) -> None:
        """Put everything back. What did not change is not written to."""
        for module, training in self.modes:
            module.training = training
        for module, hooks in self.hooks:
            vars(module).update(hooks)
        for store, before in self.slots:
            store.update({name: was for name, was in before.items() if store.get(name) is not was})
        for parameter, requires_grad in self.wanted:
            parameter.requires_grad_(requires_grad)


@contextmanager
def _fused_attention_off() -> Iterator[None]:
    """Keep nn.TransformerEncoder from taking its inference path, which packs a padded batch into other shapes."""
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was)


@contextmanager
def _global_backward_hooks_off() -> Iterator[None]:
    """Without the backward hooks that are registered for all modules at once."""
    names = ("_global_backward_hooks", "_global_backward_pre_hooks")
    was = {name: getattr(all_modules, name) for name in names}
    for name in names:
        setattr(all_modules, name, _NoHooks())
    try:
        yield
    finally:
        for name, hooks in was.items():
            setattr(all_modules, name, hooks)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Put every random generator back to where it was."""
    # The global generator is old, and is what people's code draws from.
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if on_cuda else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread, so that sums have one order; small networks are no faster with more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
            return checkpointing.checkpoint(function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state)

    checkpointing.CheckpointFunction = NonReentrant  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        checkpointing.CheckpointFunction = original  # type: ignore[misc]
