"""What a forward pass computes from what: every tensor that passes, and the tensors that it was made from.

Every torch function of the pass is seen as it is called, so that a sum which no module returns is a value like any
other, and so that what is computed without gradients, or detached, is followed too.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor, nn

from walkback.protocol.operations import CHANGED
from walkback.protocol.tensors import floating_tensors, memory_of, same_memory, tensors_in, version_of

SHAPE_ALONE = ("_like", "new_")
"""Functions with these in their names take no numbers from the tensor that they are given."""
FIRST_ALONE = frozenset({"to", "type_as", "view_as", "reshape_as", "expand_as"})
"""Functions that take numbers from the first tensor alone."""
PARTS = frozenset({"__getitem__", "select", "narrow", "index_select", "take_along_dim", "gather", "roll"})
"""Functions whose other arguments say which part of a tensor is taken."""


class Place(NamedTuple):
    """Where in the code a tensor is made: at the n-th function after a module was entered or left."""

    module: nn.Module
    nth: int
    """How often the module was called before."""
    end: str
    """`input` or `output`: entered or left."""
    step: int
    """Which function since then, counted from 1."""
    position: int = -1
    """Which of the floating tensors of its result; -1 for what it writes to and does not return."""


@dataclass(frozen=True)
class Value:
    """One tensor with one content; a change in place makes another."""

    number: int
    """Values are numbered as they are made: what a value is made from has a smaller number."""
    made_by: str
    """The function's name; empty for what comes from outside."""
    inputs: tuple[int, ...]
    time: int
    shape: tuple[int, ...]
    floating: bool
    weighted: bool
    """Whether a parameter had a part in it."""
    fed: bool
    """Whether the network's input had a part in it."""
    same_as: int
    """The first value with these very numbers in this memory: `detach` and `contiguous` may change nothing."""
    node: Any
    """Its node in the autograd graph; None where nothing was tracked."""
    output: int
    """Which of the node's outputs it is."""
    signature: int
    """The same for values that were made in the same way from the same things."""
    place: Place | None = None
    parameter: bool = False


class Flow:
    """The values of one forward pass, in the order in which they were made."""

    def __init__(self, parameters: Iterable[Tensor] = ()) -> None:
        self.values: list[Value] = []
        self.clock = count()
        self.parameters: dict[int, Tensor] = {}
        """Those that were used, by number."""
        self._parameters = {id(parameter): parameter for parameter in parameters}
        self._of: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._nodes: dict[Any, int] = {}
        self._written: dict[int, tuple[Any, list[int]]] = {}
        """By memory that was changed in place: that memory, kept from being used again, and the changes."""

    def feed(self, tensors: Iterable[Tensor]) -> None:
        """Take these for the network's input."""
        for tensor in tensors:
            self._add(tensor, fed=True)

    def value_of(self, tensor: Tensor, made_from: Sequence[int] = ()) -> Value:
        """The tensor as it is now; one that nobody saw being made: by its graph, or else from `made_from`."""
        held = self._of.get(id(tensor))
        if held is None or held[0]() is not tensor:
            parameter = id(tensor) in self._parameters
            inputs = () if parameter else self._by_graph(tensor) or tuple(made_from)
            return self._add(tensor, inputs=inputs, parameter=parameter)
        known = self.values[held[1]]
        since = [change for change in self._changes(tensor) if change > known.number]
        return self._add(tensor, CHANGED, (known.number, *since)) if since else known

    def note(
        self,
        function: Any,
        arguments: Any,
        given: Sequence[Tensor],
        versions: Sequence[int],
        result: Any,
        place: Place | None,
    ) -> None:
        """Take down what a function made of its arguments, among which the given tensors are, at those versions."""
        ids = {id(tensor) for tensor in given}
        changed = [tensor for tensor, before in zip(given, versions, strict=True) if version_of(tensor) != before]
        made = [tensor for tensor in tensors_in(result) if id(tensor) not in ids]
        if not made and not changed:
            return
        name = name_of(function)
        read = [self.value_of(tensor) for tensor in _read_by(name, given)]
        inputs = tuple(dict.fromkeys(value.number for value in read))
        positions = {id(tensor): at for at, tensor in enumerate(floating_tensors(result))}
        how = _details(name, arguments)
        for tensor in changed:
            at = place and place._replace(position=positions.get(id(tensor), -1))
            value = self._add(tensor, name, inputs, place=at, how=how)
            memory = memory_of(tensor)
            if memory is not None:
                self._written.setdefault(memory, (tensor.untyped_storage(), []))[1].append(value.number)
        for tensor in made:
            same = next((self.value_of(other).same_as for other in given if same_memory(other, tensor)), None)
            at = place and place._replace(position=positions.get(id(tensor), -1))
            self._add(tensor, name, inputs, same_as=same, place=at, how=how)

    def _add(
        self,
        tensor: Tensor,
        made_by: str = "",
        inputs: tuple[int, ...] = (),
        *,
        same_as: int | None = None,
        place: Place | None = None,
        how: str = "",
        fed: bool = False,
        parameter: bool = False,
    ) -> Value:
        number = len(self.values)
        sources = [self.values[source] for source in inputs]
        made = (made_by, how, place.position if place is not None else 0, *(source.signature for source in sources))
        value = Value(
            number=number,
            made_by=made_by,
            inputs=inputs,
            time=next(self.clock),
            shape=tuple(tensor.shape),
            floating=tensor.is_floating_point(),
            weighted=parameter or any(source.weighted for source in sources),
            fed=fed or any(source.fed for source in sources),
            same_as=number if same_as is None else same_as,
            node=tensor.grad_fn,
            output=tensor.output_nr,
            signature=hash(made) if inputs else hash((number,)),
            place=place,
            parameter=parameter,
        )
        self.values.append(value)
        self._of[id(tensor)] = weakref.ref(tensor), number
        if value.node is not None:
            self._nodes[value.node] = number
        if parameter:
            self.parameters[number] = tensor
        return value

    def _changes(self, tensor: Tensor) -> list[int]:
        held = self._written.get(memory_of(tensor) or 0) if self._written else None
        return held[1] if held is not None else []

    def _by_graph(self, tensor: Tensor) -> tuple[int, ...]:
        """The values that autograd computed it from, for what torch's functions do not show."""
        found: set[int] = set()
        seen: set[Any] = set()
        frontier = [tensor.grad_fn]
        while frontier:
            node = frontier.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in self._nodes:
                found.add(self._nodes[node])
            else:
                frontier.extend(parent for parent, _ in node.next_functions)
        return tuple(sorted(found))


def name_of(function: Any) -> str:
    """What a torch function is called; a property by its own name."""
    name = str(getattr(function, "__name__", function))
    return str(getattr(function.__self__, "__name__", name)) if name in ("__get__", "__set__") else name


def _details(name: str, arguments: Any) -> str:
    """Which part of a tensor is taken, where a part is taken: what its arguments say besides tensors."""
    if name not in PARTS:
        return ""
    return repr([item for item in _flat(arguments) if not isinstance(item, Tensor)])


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [item for part in value for item in _flat(part)]
    return _flat(list(value.items())) if isinstance(value, dict) else [value]


def _read_by(name: str, given: Sequence[Tensor]) -> Sequence[Tensor]:
    """The tensors whose numbers a function of this name uses."""
    if name.endswith(SHAPE_ALONE[0]) or name.startswith(SHAPE_ALONE[1]):
        return ()
    return given[:1] if name in FIRST_ALONE else given


class Reach:
    """Which values of a flow lead to its output, and through which single values everything must pass."""

    def __init__(self, values: Sequence[Value], output: Value) -> None:
        self.values, self.output = values, output
        self._uses: dict[int, list[int]] = {output.number: []}
        for value in reversed(self.values[: output.number + 1]):
            if value.number in self._uses:
                for source in value.inputs:
                    self._uses.setdefault(source, []).append(value.number)

    def leads_on(self, value: Value) -> bool:
        """Whether the output depends on it."""
        return value.number in self._uses

    def uses(self, number: int) -> list[int]:
        """What is made from a value directly and leads to the output, the last first."""
        return self._uses.get(number, [])

    def passages(self, source: Value, until: float = float("inf")) -> list[Value]:
        """The values, made before a time, each of which everything passes that leads from a value to the output.

        The value itself is the first; none where the output does not depend on it.
        """
        if not self.leads_on(source):
            return []
        reached, found, furthest = {source.number}, [source], self._last_use(source)
        for value in self.values[source.number + 1 : self.output.number + 1]:
            if value.time >= until:
                break
            if value.number in self._uses and not reached.isdisjoint(value.inputs):
                reached.add(value.number)
                # No value before leads past this one.
                if furthest <= value.number:
                    found.append(value)
                furthest = max(furthest, self._last_use(value))
        return found

    def _last_use(self, value: Value) -> int:
        uses = self._uses[value.number]
        return uses[0] if uses else value.number

    def made_since(self, value: Value, sources: Collection[int]) -> bool:
        """Whether a value was made from some of these, or is one; what is older than all of them is not looked at."""
        first, seen, frontier = min(sources), {value.number}, [value.number]
        while frontier:
            number = frontier.pop()
            if number in sources:
                return True
            fresh = [source for source in self.values[number].inputs if source >= first and source not in seen]
            seen.update(fresh)
            frontier.extend(fresh)
        return False

    def ancestors(self, value: Value, without: int | None = None) -> set[int]:
        """The numbers of everything that a value was made from, itself included, past no value `without`."""
        if value.number == without:
            return set()
        seen = {value.number} if without is None else {value.number, without}
        frontier = [value.number]
        while frontier:
            fresh = [source for source in self.values[frontier.pop()].inputs if source not in seen]
            seen.update(fresh)
            frontier.extend(fresh)
        return seen if without is None else seen - {without}
