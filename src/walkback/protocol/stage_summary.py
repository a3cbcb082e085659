"""A divided network in one line, and the parameters of its stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from walkback.protocol.calls import Watched
from walkback.protocol.chains import Run
from walkback.protocol.flow import Value
from walkback.protocol.parameters import parameters_of

MOST_NAMES = 6


def parts_in_words(
    watched: Watched, run: Run, read_at: Sequence[int], pattern: str, between: Iterable[Iterable[str]]
) -> str:
    """`stem: embed; blocks: layers.* (3); between: add; head: norm, head`."""
    names, blocks = watched.names, {call.name for call in run}
    done = [module for module, left in watched.left_at.items() if left <= read_at[0]]
    before = [names[module] for module in done if _has_weights(module)]
    behind = [call for call in watched.calls if call.entered >= read_at[-1] and call.has_weights]
    after = [call.name for call in behind if watched.leads_on(call) and call.name not in blocks]
    return "; ".join(
        [
            f"stem: {_listed(_outermost(before)) or 'none'}",
            f"blocks: {pattern} ({len(run)})",
            f"between: {_listed(sorted({kind for stretch in between for kind in stretch})) or 'nothing'}",
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
