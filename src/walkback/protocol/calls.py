"""What one forward pass shows: which module read and wrote which tensor, and what was computed from what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from walkback.protocol.batches import Batch, mapped
from walkback.protocol.block_names import plain_modules
from walkback.protocol.flow import Flow, Place, Reach, Value
from walkback.protocol.modes import FunctionMode
from walkback.protocol.tensors import counts_as_step, tensors_in, version_of
from walkback.protocol.tensors import floating_tensors as floating_tensors


@dataclass(frozen=True)
class Wire:
    """A tensor as it was when a module read or wrote it; later changes in place do not reach this."""

    value: Value
    position: int
    """Which of the floating tensors that the module took or returned."""

    def same_as(self, other: Wire) -> bool:
        """Whether both are the same numbers in the same memory."""
        return self.value.same_as == other.value.same_as


@dataclass(frozen=True)
class Call:
    """One call of a module during the watched forward pass."""

    name: str
    module: nn.Module
    nth: int
    """How often the same module was called before."""
    entered: int
    left: int
    taken: tuple[Wire, ...]
    """Every floating tensor that it was given."""
    returned: tuple[Wire, ...]
    read: Wire
    """The stream among what it was given."""
    written: Wire
    """The stream among what it returned."""
    fresh: Wire | None = None
    """Of a module that was called before, and gets its own state back: what comes to it from elsewhere and is new."""

    @property
    def family(self) -> tuple[str, str, int]:
        """Type and depth in the tree. By name: every parametrized module has a class object of its own."""
        kind = type(self.module)
        return kind.__module__, kind.__qualname__, self.name.count(".")

    @cached_property
    def has_weights(self) -> bool:
        """Whether it holds parameters at all."""
        return any(True for _ in self.module.parameters()) or self.is_quantised

    @cached_property
    def has_matrix(self) -> bool:
        """Whether it holds more than scales and shifts: normalisation alone is no block."""
        return any(parameter.ndim > 1 for parameter in self.module.parameters()) or self.is_quantised

    @cached_property
    def is_quantised(self) -> bool:
        """Whether its weights are packed integers, which are no parameters."""
        return any(is_quantised(module) for module in self.module.modules())

    @cached_property
    def makes_weights(self) -> bool:
        """Whether what it read was made from parameters alone, as where a layer writes the weights of another."""
        read = [wire.value for wire in self.taken]
        return any(value.weighted for value in read) and not any(value.fed for value in read)

    def inside(self, other: Call) -> bool:
        """Whether it happened during another call."""
        return other.entered < self.entered and self.left < other.left


def is_quantised(module: nn.Module) -> bool:
    """Whether a module keeps its weights as integers, packed away from its parameters."""
    return "quantized" in type(module).__module__ and hasattr(module, "_packed_params")


@dataclass(frozen=True)
class Watched:
    """What one forward pass showed."""

    calls: Sequence[Call]
    """Every module call with a floating tensor, in the order of entry."""
    logits: Tensor
    output: Value
    """The logits among the values."""
    reach: Reach
    samples: int
    changes_input: bool
    left_at: Mapping[nn.Module, int]
    """When each module, whatever it takes, was left for the last time."""
    visits: Mapping[nn.Module, int]
    """How often each module was called."""
    names: Mapping[nn.Module, str]
    root: nn.Module
    given: tuple[Wire, ...]
    """What the model itself was called with."""
    parameters: Mapping[int, Tensor]
    """The parameters among the values, by number."""

    @cached_property
    def _leading(self) -> list[int]:
        """Of each value, which calls it was computed from, as bits by their place among the calls."""
        written: dict[int, int] = {}
        for place, call in enumerate(self.calls):
            written[call.written.value.number] = written.get(call.written.value.number, 0) | 1 << place
        bits: list[int] = []
        for value in self.reach.values:
            mine = written.get(value.number, 0)
            for source in value.inputs:
                mine |= bits[source]
            bits.append(mine)
        return bits

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(call): place for place, call in enumerate(self.calls)}

    def leads_to(self, earlier: Call, later: Call) -> bool:
        """Whether what the later call read was computed from what the earlier one wrote."""
        read = later.read if later.fresh is None or earlier.module is later.module else later.fresh
        made_from = self._leading[read.value.number]
        return earlier.left < later.entered and bool(made_from >> self._places[id(earlier)] & 1)

    def made_from(self, call: Call) -> set[int]:
        """The numbers of the values that were computed from what a call wrote, that itself among them."""
        place = self._places[id(call)]
        return {number for number, bits in enumerate(self._leading) if bits >> place & 1}

    def leads_on(self, call: Call) -> bool:
        """Whether the logits depend on what a call wrote."""
        return self.reach.leads_on(call.written.value)

    def label(self, call: Call) -> str:
        """The call's module by name, and which call it was where there were several: `layer#2`."""
        return f"{call.name}#{call.nth + 1}" if self.visits[call.module] > 1 else call.name


@torch.enable_grad()
def watch_forward(model: nn.Module, batch: Batch) -> Watched:
    """One forward pass with every module call and every function noted."""
    given = batch.with_inputs(mapped(batch.inputs, torch.clone))
    flow = Flow(model.parameters())
    flow.feed(given.tensors())
    watch = _Watch(model, flow)
    with _graph_from_parameters(model), watch.attached():
        logits = given.call(model, copy=False)
        output = flow.value_of(logits)
    changed = not all(map(torch.equal, given.tensors(), batch.tensors()))
    reach, notes = Reach(flow.values, output), {(note.module, note.nth): note for note in watch.notes}
    calls = [note.call(reach, notes.get((module, nth - 1))) for (module, nth), note in notes.items()]
    return Watched(
        calls=sorted(calls, key=lambda call: call.entered),
        logits=logits,
        output=output,
        reach=reach,
        samples=batch.size,
        changes_input=changed,
        left_at=watch.left_at,
        visits=watch.visits,
        names={module: name for name, module in watch.modules.items()},
        root=model,
        given=watch.given,
        parameters=flow.parameters,
    )


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


@dataclass(frozen=True)
class _Note:
    """A call as it went by, before it is known what of it is the stream."""

    name: str
    module: nn.Module
    nth: int
    entered: int
    left: int
    taken: tuple[Wire, ...]
    returned: tuple[Wire, ...]

    def call(self, reach: Reach, before: _Note | None) -> Call:
        """Say what is the stream: masks and caches may come before it, and not all that is returned is used."""
        fresh = None if before is None else self._fresh(reach, before)
        weighted = [wire for wire in self.taken if wire.value.weighted]
        taken = weighted or [wire for wire in self.taken if wire.value.fed] or list(self.taken)
        returned = [wire for wire in self.returned if reach.leads_on(wire.value)] or list(self.returned)
        for read in taken:
            for written in returned:
                if read.value.shape == written.value.shape:
                    return Call(**vars(self), read=read, written=written, fresh=fresh)
        return Call(**vars(self), read=taken[0], written=returned[0], fresh=fresh)

    def _fresh(self, reach: Reach, before: _Note) -> Wire | None:
        """What comes in anew where a state comes in that the module's call before wrote; None where either does not."""
        own = {wire.value.number for wire in before.returned}
        states = [wire for wire in self.taken if reach.made_since(wire.value, own)]
        old = {wire.value.same_as for wire in before.taken}
        new = [w for w in self.taken if w not in states and w.value.fed and w.value.same_as not in old]
        return new[0] if states and new else None


class _Watch(FunctionMode):
    """Notes every call of a module and every torch function, while it is attached."""

    def __init__(self, model: nn.Module, flow: Flow) -> None:
        super().__init__()
        self.model, self.flow = model, flow
        self.modules = plain_modules(model)
        self.given: tuple[Wire, ...] = ()
        self.notes: list[_Note] = []
        self.left_at: dict[nn.Module, int] = {}
        self.visits: Counter[nn.Module] = Counter()
        self._open: dict[nn.Module, list[tuple[int, int, tuple[Wire, ...]]]] = {}
        self._place: Place | None = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch for as long as the context lasts."""
        handles = [self.model.register_forward_pre_hook(self._begin, with_kwargs=True)]
        try:
            for name, module in self.modules.items():
                handles.append(module.register_forward_pre_hook(self._enter, with_kwargs=True))
                handles.append(module.register_forward_hook(self._leaver(name)))
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = tensors_in((args, kwargs))
        versions = [version_of(tensor) for tensor in given]
        result = func(*args, **kwargs)
        if self._place is not None and counts_as_step(func, result):
            self._place = self._place._replace(step=self._place.step + 1)
        self.flow.note(func, (args, kwargs), given, versions, result, self._place)
        return result

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with torch._C.DisableTorchFunction():
            self.given = self._wires((args, kwargs))
            self._place = Place(module, 0, "input", 0)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with torch._C.DisableTorchFunction():
            wires = self._wires((args, kwargs))
            nth = self.visits[module]
            self._open.setdefault(module, []).append((next(self.flow.clock), nth, wires))
            self.visits[module] += 1
            self._place = Place(module, nth, "input", 0)

    def _leaver(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def leave(module: nn.Module, _args: Any, output: Any) -> None:
            with torch._C.DisableTorchFunction():
                entered, nth, taken = self._open[module].pop()
                returned = self._wires(output, [wire.value.number for wire in taken])
                left = self.left_at[module] = next(self.flow.clock)
                if taken and returned:
                    self.notes.append(_Note(name, module, nth, entered, left, taken, returned))
                self._place = Place(module, nth, "output", 0)

        return leave

    def _wires(self, handed: Any, made_from: Sequence[int] = ()) -> tuple[Wire, ...]:
        tensors = floating_tensors(handed)
        return tuple(Wire(self.flow.value_of(tensor, made_from), at) for at, tensor in enumerate(tensors))
