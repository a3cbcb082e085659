"""A divided network in one line, and the parameters of its stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from walkback.protocol.calls import Watched
from walkback.protocol.chains import Run
from walkback.protocol.flow import Value
from walkback.protocol.parameters import parameters_of

MOST_NAMES = 6


def parts_in_words(watched: Watched, run: Run, sites: Sequence[Value], pattern: str, between: Iterable[str]) -> str:
    """`stem: embed; blocks: layers.* (3); between: add; head: norm, head`."""
    first, last = sites[0].time, sites[-1].time
    names = watched.names
    before = [names[m] for m, left in watched.left_at.items() if left <= first and m in names and _has_weights(m)]
    after = [call.name for call in watched.calls if call.entered > last and call.has_weights]
    after = [name for name in after if watched.reach and name not in {call.name for call in run}]
    return "; ".join(
        [
            f"stem: {_listed(_outermost(before)) or 'none'}",
            f"blocks: {pattern} ({len(run)})",
            f"between: {_listed(sorted(between)) or 'nothing'}",
            f"head: {_listed(_outermost(after)) or 'none'}",
        ]
    )


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())


def _outermost(names: Iterable[str]) -> list[str]:
    """Without those inside others of them."""
    listed = list(dict.fromkeys(names))
    return [name for name in listed if not any(name.startswith(f"{other}.") for other in listed)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown}, and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def parameters_between(model: nn.Module, watched: Watched, run: Run, sites: Sequence[Value]) -> tuple[str, ...]:
    """The parameters of the blocks, and those that are used between h_0 and h_L and nowhere else, by dotted name."""
    inside = {id(parameter) for call in run for parameter in call.module.parameters()}
    inside |= _used_between(watched, sites[0], sites[-1])
    return tuple(name for name, parameter in parameters_of(model).items() if id(parameter) in inside)


def _used_between(watched: Watched, first: Value, last: Value) -> set[int]:
    reach = watched.reach
    upstream = reach.ancestors(last)
    path = {first.number}
    for value in reach.values[first.number + 1 : last.number + 1]:
        if value.number in upstream and not path.isdisjoint(value.inputs):
            path.add(value.number)
    inputs = {number for at in path - {first.number} for number in reach.values[at].inputs} - path
    sides = [reach.values[number] for number in inputs if not reach.values[number].fed]
    weights = {number for side in sides for number in reach.ancestors(side)}
    here = path | weights
    return {
        id(watched.parameters[number])
        for number in weights & set(watched.parameters)
        if all(use in here for use in reach.uses(number))
    }
