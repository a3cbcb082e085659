"""What one forward pass shows: which module read and wrote which tensor, and what was computed from what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from walkback.protocol.batches import Batch, mapped
from walkback.protocol.block_names import plain_modules


@dataclass(frozen=True)
class Wire:
    """A tensor as it was when a module read or wrote it; later in-place changes do not reach this."""

    tensor: Tensor
    position: int
    """Which of the floating tensors that the module took or returned."""
    node: Any
    """Its node in the autograd graph, None where no parameter had a part in it."""
    output: int
    """Which of the node's outputs it is."""
    version: int

    @cached_property
    def ancestry(self) -> set[Any]:
        """Every node that it was computed from."""
        return ancestors(self.node)

    def same_as(self, other: Wire) -> bool:
        """Whether both are one tensor with one content."""
        return self.version == other.version and same_memory(self.tensor, other.tensor)


@dataclass(frozen=True)
class Call:
    """One call of a module during the watched forward pass."""

    name: str
    module: nn.Module
    nth: int
    """How often the same module was called before."""
    entered: int
    left: int
    read: Wire
    written: Wire

    @property
    def family(self) -> tuple[str, str, int]:
        """Type and depth in the tree. By name: every parametrized module has a class object of its own."""
        kind = type(self.module)
        return kind.__module__, kind.__qualname__, self.name.count(".")

    @property
    def has_weights(self) -> bool:
        """Whether it holds parameters at all."""
        return any(True for _ in self.module.parameters())

    @property
    def has_matrix(self) -> bool:
        """Whether it holds more than scales and shifts: normalisation alone is no block."""
        return any(parameter.ndim > 1 for parameter in self.module.parameters())


@dataclass(frozen=True)
class Watched:
    """What one forward pass showed."""

    calls: list[Call]
    """Every module call with a floating tensor, in the order of entry."""
    logits: Wire
    samples: int
    changes_input: bool
    left_at: Mapping[nn.Module, int]
    """When each module, whatever it takes, was left for the last time."""


@torch.enable_grad()
def watch_forward(model: nn.Module, batch: Batch) -> Watched:
    """One forward pass with every module call noted."""
    calls: list[Call] = []
    left_at: dict[nn.Module, int] = {}
    given = Batch(mapped(batch.inputs, torch.clone), batch.targets)
    with _graph_from_parameters(model), _watching(model, calls, left_at):
        logits = given.call(model, copy=False)
    changed = not all(map(torch.equal, given.tensors(), batch.tensors()))
    return Watched(sorted(calls, key=lambda call: call.entered), _wire(logits, 0), batch.size, changed, left_at)


@contextmanager
def _graph_from_parameters(model: nn.Module) -> Iterator[None]:
    """Let the graph show what is computed from what, for as long as the pass is watched."""
    wanted = [(p, p.requires_grad) for p in model.parameters() if p.is_floating_point()]
    for parameter, _ in wanted:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter, requires_grad in wanted:
            parameter.requires_grad_(requires_grad)


@contextmanager
def _watching(model: nn.Module, calls: list[Call], left_at: dict[nn.Module, int]) -> Iterator[None]:
    entered: dict[nn.Module, list[tuple[int, int, list[Wire]]]] = {}
    clock, visits = count(), Counter[nn.Module]()

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        wires = [_wire(tensor, i) for i, tensor in enumerate(floating_tensors((args, kwargs)))]
        entered.setdefault(module, []).append((next(clock), visits[module], wires))
        visits[module] += 1

    def leave(name: str, module: nn.Module, output: Any) -> None:
        order, nth, read = entered[module].pop()
        written = [_wire(tensor, i) for i, tensor in enumerate(floating_tensors(output))]
        left = left_at[module] = next(clock)
        if read and written:
            calls.append(Call(name, module, nth, order, left, *_stream(read, written)))

    handles = []
    try:
        for name, module in plain_modules(model).items():
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(lambda m, _args, out, name=name: leave(name, m, out)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _stream(read: list[Wire], written: list[Wire]) -> tuple[Wire, Wire]:
    """What of a module's inputs and outputs is the stream: masks and caches may come before it."""
    computed = [wire for wire in read if wire.node is not None]
    for wire in computed:
        for out in written:
            if wire.tensor.shape == out.tensor.shape and out.node is not None:
                return wire, out
    return (computed or read)[0], written[0]


def _wire(tensor: Tensor, position: int) -> Wire:
    version = 0 if tensor.is_inference() else tensor._version
    return Wire(tensor, position, tensor.grad_fn, tensor.output_nr, version)


def floating_tensors(value: Any) -> list[Tensor]:
    """The floating tensors in what a module takes or returns, however nested, in order."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in floating_tensors(item)]
    if isinstance(value, Mapping):
        return floating_tensors(list(value.values()))
    if is_dataclass(value) and not isinstance(value, type):
        return floating_tensors([getattr(value, field.name) for field in fields(value)])
    return []


def same_memory(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
    return left is right or (
        left.shape == right.shape and left.stride() == right.stride() and left.data_ptr() == right.data_ptr()
    )


def ancestors(node: Any, without: Any = None) -> set[Any]:
    """Every node of the autograd graph that this one is computed from, itself included, past no `without`."""
    seen: set[Any] = set()
    frontier = [node]
    while frontier:
        at = frontier.pop()
        if at is not None and at is not without and at not in seen:
            seen.add(at)
            frontier.extend(parent for parent, _ in at.next_functions)
    return seen


def leads_to(earlier: Call, later: Call) -> bool:
    """Whether what the later call read was computed from what the earlier one wrote."""
    return earlier.written.node is not None and earlier.written.node in later.read.ancestry
