"""The diagnostics that this process knows, and tables of what they declare. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Scalar, Threshold
from walkback.registry import DIAGNOSTICS, changes

Made = TypeVar("Made")


def as_long_as_nothing_is_added(make: Callable[[], Made]) -> Callable[[], Made]:
    """Keep what a function returns until a registry changes."""
    kept: list[tuple[int, Made]] = []

    def once() -> Made:
        if not kept or kept[-1][0] != changes():
            made = make()  # loading a plugin that is broken changes the registry too
            kept[:] = [(changes(), made)]
        return kept[-1][1]

    return once


@as_long_as_nothing_is_added
def known() -> dict[str, type[Diagnostic]]:
    """Every diagnostic by its name, in the order of the registry: walkback's own first."""
    return dict(DIAGNOSTICS.loaded())


def named(name: str) -> type[Diagnostic]:
    """A diagnostic by its name in the registry; an unknown one raises `UnknownName`."""
    found: type[Diagnostic] = DIAGNOSTICS.load(name)
    return found


def by_letter(letter: str) -> type[Diagnostic] | None:
    """The diagnostic of a letter; None where none that is known has it."""
    return next((one for one in known().values() if one.letter == letter), None)


@as_long_as_nothing_is_added
def letters() -> dict[str, str]:
    """The letter of every diagnostic, by its name."""
    return {name: one.letter for name, one in known().items()}


@as_long_as_nothing_is_added
def thresholds() -> dict[str, Threshold]:
    """Every declared threshold by its name."""
    return {name: threshold for one in known().values() for name, threshold in one.thresholds.items()}


@as_long_as_nothing_is_added
def quantities() -> dict[str, Quantity]:
    """Every declared quantity by its name."""
    return {quantity.name: quantity for one in known().values() for quantity in one.quantities}


@as_long_as_nothing_is_added
def owners() -> dict[str, str]:
    """The letter of the diagnostic that a field of `Measurements` belongs to, by the name of the field."""
    return dict(_owned())


def _owned() -> Iterator[tuple[str, str]]:
    for one in known().values():
        for quantity in one.quantities:
            yield quantity.name, one.letter
            for interval in quantity.all_intervals:
                yield interval, one.letter


@as_long_as_nothing_is_added
def traced() -> tuple[str, ...]:
    """The names of the quantities that every line of a trace keeps."""
    return tuple(name for name, quantity in quantities().items() if quantity.traced)


@as_long_as_nothing_is_added
def traced_intervals() -> tuple[str, ...]:
    """The names of the intervals that every line of a trace keeps."""
    kept = (quantity for quantity in quantities().values() if quantity.intervals_traced)
    return tuple(name for quantity in kept for name in quantity.all_intervals)


@as_long_as_nothing_is_added
def scalars() -> dict[str, tuple[type[Diagnostic], Scalar]]:
    """Every scalar by its name, with its diagnostic."""
    return {scalar.name: (one, scalar) for one in known().values() for scalar in one.shown_scalars()}


@as_long_as_nothing_is_added
def over_sites() -> tuple[tuple[type[Diagnostic], Quantity], ...]:
    """Every quantity that is shown over the sites, in the order of its column; counts of NaN and Inf are not."""
    found = [
        (one, quantity)
        for one in known().values()
        for quantity in (*one.quantities, *one.derived)
        if quantity.per_site and quantity.kind != "broken"
    ]
    return tuple(sorted(found, key=lambda pair: pair[1].place))
