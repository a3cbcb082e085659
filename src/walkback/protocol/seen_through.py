"""See through the backward passes that people write: differentiate what a network computes, not what it declares.

Feedback alignment is usually written as a `torch.autograd.Function` whose `backward` is not the derivative of its
`forward`, or as a hook that replaces a gradient. Seen through, a Function's `forward` runs under autograd and a hook is
not registered. Where a `forward` cannot be differentiated (a kernel, numpy, a threshold), its declared backward stays.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import Function, FunctionCtx, NestedIOFunction, _SingleLevelFunction
from torch.utils.hooks import RemovableHandle

from walkback.protocol.calls import floating_tensors

Result = TypeVar("Result")

STEPS = (
    "Sign",
    "Sgn",
    "Round",
    "Floor",
    "Ceil",
    "Trunc",
    "Heaviside",
    "Bernoulli",
    "FakeQuantize",
    "FusedMovingAvgObs",
)
"""What the nodes of steps are called in a graph: autograd gives them the derivative zero, or a made-up one."""


class _StaysDeclared(BaseException):
    """A Function's forward cannot be differentiated. No `Exception`, so that no code of the model's takes it."""

    def __init__(self, function: type) -> None:
        self.function = function


@dataclass
class Sight:
    """How the backward passes of a network's own are taken, and which of them were met."""

    through: bool = True
    """Seen through; else as declared."""
    met: dict[str, None] = field(default_factory=dict)
    """What declares a backward pass of its own on the stream: Functions and tensor hooks, by name."""
    kept: dict[type, None] = field(default_factory=dict)
    """Functions whose forward cannot be differentiated, so that their declared backward stays."""

    def run(self, measure: Callable[[], Result]) -> Result:
        """Measure in this sight; again where a Function turns out to be one that stays as declared."""
        while True:
            try:
                with self._active():
                    return measure()
            except _StaysDeclared as found:
                self.kept[found.function] = None

    @property
    def seen_through(self) -> tuple[str, ...]:
        """What was seen through, by name."""
        kept = {_name(function) for function in self.kept}
        return tuple(name for name in self.met if name not in kept) if self.through else ()

    @contextmanager
    def _active(self) -> Iterator[None]:
        # `Function.apply` ends in `super().apply`, which is looked up on each call: so an `apply` here, between it and
        # torch's own in C, is met by references to `MyFunction.apply` too that were taken before.
        lowest: Any = _SingleLevelFunction
        before = lowest.__dict__.get("apply")
        plain = torch.Tensor.register_hook
        lowest.apply = classmethod(lambda cls, *args, **kwargs: self._apply(cls, args, kwargs))
        torch.Tensor.register_hook = lambda tensor, hook: self._hook(plain, tensor, hook)  # type: ignore[method-assign]
        try:
            yield
        finally:
            torch.Tensor.register_hook = plain  # type: ignore[method-assign]
            if before is None:
                del lowest.apply
            else:
                lowest.apply = before

    def _apply(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = [tensor for tensor in floating_tensors((args, kwargs)) if tensor.requires_grad]
        if given and torch.is_grad_enabled() and _is_of_the_network(function):
            self.met[_name(function)] = None
            if self.through and function not in self.kept:
                return _differentiable(function, args, kwargs, given)
        return super(_SingleLevelFunction, function).apply(*args, **kwargs)  # type: ignore[misc]

    def _hook(self, plain: Callable[..., Any], tensor: Tensor, hook: Any) -> Any:
        if _is_ours(sys._getframe(2).f_globals.get("__name__", "")):
            return plain(tensor, hook)
        if not tensor.requires_grad:
            return RemovableHandle(OrderedDict())  # no gradient comes by here while the network is measured
        self.met["a tensor hook"] = None
        return RemovableHandle(OrderedDict()) if self.through else plain(tensor, hook)


def _name(function: type) -> str:
    return function.__qualname__.rpartition("<locals>.")[2]


def _is_ours(module: str) -> bool:
    """Whether code is torch's or walkback's: what it does to a gradient is no method of a network's."""
    return module.partition(".")[0] in ("torch", "walkback")


def _is_of_the_network(function: type) -> bool:
    plain = issubclass(function, Function) and not issubclass(function, NestedIOFunction)
    return plain and not _is_ours(function.__module__)


class _Context(FunctionCtx):
    """What a `forward` is given to keep things in for a backward pass that will not run."""

    def __init__(self, function: type, needs_input_grad: tuple[bool, ...]) -> None:
        self._forward_cls = function
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple(self.to_save)


def _differentiable(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Tensor]) -> Any:
    """What the Function's forward gives, with the graph of what it computes."""
    edges = {tensor.grad_fn for tensor in given}
    try:
        if function.setup_context is Function.setup_context:
            needed = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
            output = function.forward(_Context(function, needed), *args, **kwargs)
        else:
            output = function.forward(*args, **kwargs)
    except Exception as error:
        if type(error).__module__ == "torch.utils.checkpoint":
            raise  # how it ends computing again, once it has what it needs
        # In-place, numpy, out= and kernels may refuse tensors with a graph; what is truly wrong fails as declared too.
        raise _StaysDeclared(function) from None
    written = floating_tensors(output)
    if written and not any(tensor.requires_grad for tensor in written):
        raise _StaysDeclared(function)
    if steps_in([tensor.grad_fn for tensor in written], edges):
        raise _StaysDeclared(function)
    return output


def steps_in(nodes: list[Any], until: Collection[Any] = ()) -> set[str]:
    """The steps in an autograd graph, down to some nodes, by name."""
    seen: set[Any] = set()
    names: set[str] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in until or node in seen:
            continue
        seen.add(node)
        names.add(node.name())
        nodes.extend(parent for parent, _ in node.next_functions)
    return {step for step in STEPS for name in names if name.startswith(step)}
