"""An audit, one panel per diagnostic: every seed of every method against the threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from walkback.present.figures.style import (
    DARK,
    FIRE,
    PRINT,
    colours_of,
    drawable,
    new_figure,
    pretty,
    say,
    threshold,
    tidy,
)
from walkback.present.in_panel import label
from walkback.present.network import Network, by_method
from walkback.present.numbers import interval_ends, round_number, with_unit
from walkback.present.plain import NAME_LENGTH, middle_out
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.records import Reading, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABEL_ROOM = 0.12
"""How near to the threshold, as a share of the axis, a mark is in the way of its number."""
_SPREAD = 0.24
_ACROSS = 2


def plot(networks: Sequence[Network]) -> Figure:
    """Methods along the axis, a mark for each seed with its interval; open circles pass, filled squares fire."""
    letters = _letters(networks)
    rows = max(math.ceil(len(letters) / _ACROSS), 1)
    figure = new_figure(7.0, 2.6 * rows)
    panels = figure.subplots(rows, _ACROSS, squeeze=False)
    for axes, letter in zip(panels.flat, letters, strict=False):
        panel(axes, letter, networks)
    for axes in panels.flat[len(letters) :]:
        axes.axis("off")
    intervals = any(r.interval is not None for network in networks for r in network.report.readings)
    legend(figure, panels[0, 0], intervals)
    return figure


def _letters(networks: Sequence[Network]) -> list[str]:
    """The diagnostics that were asked of any network, in the order of their readings."""
    return list(dict.fromkeys(reading.letter for network in networks for reading in network.report.readings))


def _title(letter: str, networks: Sequence[Network]) -> str:
    """The panel's label for the diagnostic, and what its figure is."""
    diagnostic = by_letter(letter)
    reading = next(r for network in networks for r in network.report.readings if r.letter == letter)
    words = (diagnostic.value_title if diagnostic is not None else "") or middle_out(reading.name, NAME_LENGTH)
    return f"{label(networks[0].report, letter)} {words}"


def legend(figure: Figure, axes: Axes, intervals: bool) -> None:
    """What the marks mean."""
    marks = [
        axes.plot([], [], "o", markerfacecolor="white", markeredgecolor=DARK, label="passes", markersize=5.5)[0],
        axes.plot([], [], "s", color=DARK, label="fires", markersize=5.5)[0],
        axes.plot([], [], "--", color=FIRE, label="threshold; hatched: fires", linewidth=1)[0],
    ]
    marks += axes.plot([], [], "-", color=DARK, label="95 % interval", linewidth=1) if intervals else []
    figure.legend(handles=marks, loc="outside lower center", ncols=4, frameon=False, fontsize=PRINT)


def panel(axes: Axes, letter: str, networks: Sequence[Network], title: str = "") -> None:
    """One diagnostic of all networks against its threshold."""
    methods = by_method(networks)
    read = {i: _reading(network, letter) for i, network in enumerate(networks)}
    known = [r for r in read.values() if r is not None and drawable(r.value)]
    tidy(axes, title or _title(letter, networks))
    if not known:
        say(axes, f"{label(networks[0].report, letter)} was not measured on these networks")
        return
    if _by_ratios(letter) and all(r.value is not None and r.value > 0 for r in known):
        axes.set_yscale("log")
    colours = colours_of(networks)
    for place, (method, members) in enumerate(methods.items()):
        _method(axes, letter, place, members, colours[method][0])
    _room(axes, known)
    rule = known[0]
    if rule.threshold is not None and rule.comparison is not None:
        words = f"fires {rule.comparison} {with_unit(round_number(rule.threshold), rule.unit)}"
        threshold(axes, rule.threshold, rule.comparison, words, at_left=_freer_at_left(axes, letter, methods))
    name_methods(axes, list(methods))


def name_methods(axes: Axes, methods: Sequence[str]) -> None:
    """The methods along the axis."""
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_xticks(range(len(methods)), [_wrapped(method) for method in methods], fontsize=PRINT - 1)
    axes.tick_params(axis="x", length=0)
    axes.yaxis.get_offset_text().set_fontsize(PRINT - 1)
    if len(methods) > 7:
        axes.tick_params(axis="x", rotation=60)


def _by_ratios(letter: str) -> bool:
    """Whether the diagnostic is judged on a logarithmic axis, as the first of its thresholds declares."""
    diagnostic = by_letter(letter)
    declared = next(iter(diagnostic.thresholds.values()), None) if diagnostic is not None else None
    return declared is not None and declared.axis == "log"


def _freer_at_left(axes: Axes, letter: str, methods: Mapping[str, Sequence[Network]]) -> bool:
    """Whether the first methods leave more room at the threshold, for its number, than the last ones do."""

    def in_the_way(groups: Sequence[Sequence[Network]]) -> int:
        readings = [reading for group in groups for network in group if (reading := _reading(network, letter))]
        return sum(
            abs(_height(axes, reading.value) - _height(axes, reading.threshold)) < _LABEL_ROOM
            for reading in readings
            if reading.value is not None and drawable(reading.value) and reading.threshold is not None
        )

    groups = list(methods.values())
    return in_the_way(groups[:2]) < in_the_way(groups[-2:])


def _height(axes: Axes, value: float) -> float:
    """Where a value lies on the axis, from 0 to 1."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def _wrapped(method: str) -> str:
    return pretty(method).replace(", ", ",\n").replace(" ", "\n", 1)


def _reading(network: Network, letter: str) -> Reading | None:
    return next((r for r in network.report.readings if r.letter == letter), None)


def _method(axes: Axes, letter: str, place: int, members: Sequence[Network], colour: str) -> None:
    drawn, lost = 0, ""
    for number, network in enumerate(members):
        reading = _reading(network, letter)
        if reading is None or reading.value is None:
            continue
        if not drawable(reading.value):
            lost = "off the\nscale" if math.isfinite(reading.value) else "not\nfinite"
            continue
        _mark(axes, place + beside(number, len(members)), reading, colour)
        drawn += 1
    words = lost or ("" if drawn else "not\nmeasured")
    if words:
        axes.annotate(
            words, (place, 0.5), xycoords=("data", "axes fraction"), ha="center", va="center", fontsize=PRINT - 2,
            color=FIRE if lost else "#777777",
        )  # fmt: skip


def beside(number: int, of: int) -> float:
    """How far from the middle of its method a seed is drawn."""
    return _SPREAD * (2 * number / (of - 1) - 1) if of > 1 else 0.0


def _mark(axes: Axes, x: float, reading: Reading, colour: str) -> None:
    assert reading.value is not None
    ends = interval_ends(reading)
    if ends is not None and drawable(ends[0]) and drawable(ends[1]):
        axes.plot([x, x], ends, color=colour, linewidth=1, zorder=2)
    fires = reading.state is State.FIRE
    axes.plot(
        x, reading.value, "s" if fires else "o", color=colour, markerfacecolor=colour if fires else "white",
        markersize=5.5, markeredgewidth=1.3, zorder=3,
    )  # fmt: skip


def _room(axes: Axes, known: Sequence[Reading]) -> None:
    """So much of the axis that the threshold and both its sides are seen."""
    low, high = axes.get_ylim()
    limit = known[0].threshold
    if limit is None:
        return
    if axes.get_yscale() == "log":
        axes.set_ylim(min(low / 2, limit / 8), max(high * 2, limit * 8))
    else:
        room = 0.15 * max(high - low, abs(limit))
        axes.set_ylim(min(low, limit - room), max(high, limit + room))
