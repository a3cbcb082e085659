"""All networks on one axis per diagnostic: a row for each method, a mark for each seed, the threshold drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walkback.present.in_panel import named
from walkback.present.network import Network, by_method
from walkback.present.numbers import by_magnitude, reading_value, round_number, with_unit
from walkback.present.outline import state_word
from walkback.present.plain import middle_out
from walkback.present.scale import Scale, Tick, linear_scale, log_scale
from walkback.protocol.records import Reading, State

WIDTH = 360
LEFT, RIGHT, TOP = 104, 350, 34
ROW = 18
_MOST_NAMED = 24
_NAME_LENGTH = 14

Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class Mark:
    """One network: where it lies, whether it fires, and what it says."""

    x: float
    y: float
    state: str
    beyond: bool
    label: str
    network: int


@dataclass(frozen=True)
class DotPlot:
    """One diagnostic over all networks."""

    title: str
    threshold: float
    rule: str
    anchor: str
    fires_from: float
    fires_to: float
    same: tuple[float, float] | None
    """Between which thresholds no verdict would change."""
    same_words: str
    rows: tuple[tuple[float, str], ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    bottom: float
    unread: int
    """Networks without a figure."""

    @property
    def height(self) -> float:
        """Of the whole picture."""
        return self.bottom + 24


def dot_plots(networks: Sequence[Network], same: Mapping[str, Range] | None = None) -> list[DotPlot]:
    """One plot for each diagnostic that some network has a figure of."""
    letters = list(dict.fromkeys(r.letter for network in networks for r in network.report.readings))
    made = (_plot(letter, networks, (same or {}).get(letter)) for letter in letters)
    return [plot for plot in made if plot is not None]


def _plot(letter: str, networks: Sequence[Network], same: Range | None) -> DotPlot | None:
    found = {i: reading for i, n in enumerate(networks) for reading in n.report.readings if reading.letter == letter}
    read = {i: r for i, r in found.items() if r.value is not None and not math.isnan(r.value)}
    limits = {(r.threshold, r.comparison) for r in found.values() if r.threshold is not None}
    if not read or len(limits) != 1:
        return None
    threshold, comparison = limits.pop()
    assert threshold is not None
    scale = _scale(next(iter(read.values())), [r.value for r in read.values() if r.value is not None], threshold)
    rows = {method: TOP + 10 + i * _row(networks) for i, method in enumerate(by_method(networks))}
    place = _along(scale.share(threshold))
    above = comparison == ">"
    one = next(iter(read.values()))
    limit = with_unit(round_number(threshold), one.unit)
    return DotPlot(
        title=named(networks[next(iter(read))].report, one),
        threshold=place,
        rule=f"fires above {limit} →" if above else f"← fires below {limit}",
        anchor="start" if place < LEFT + 60 else "end" if place > RIGHT - 60 else "middle",
        fires_from=place if above else LEFT,
        fires_to=RIGHT if above else place,
        same=_same(same, scale),
        same_words=_same_words(same),
        rows=tuple((y, middle_out(m, _NAME_LENGTH)) for m, y in rows.items()) if len(rows) <= _MOST_NAMED else (),
        marks=tuple(_marks(networks, read, rows, scale)),
        ticks=tuple(Tick(_along(t.share), t.label) for t in scale.ticks(5)),
        bottom=TOP + 4 + len(rows) * _row(networks),
        unread=len(networks) - len(read),
    )


def _row(networks: Sequence[Network]) -> float:
    return ROW if len(by_method(networks)) <= _MOST_NAMED else 7


def _along(share: float) -> float:
    return round(LEFT + 8 + share * (RIGHT - LEFT - 16), 1)


def _scale(reading: Reading, values: Sequence[float], threshold: float) -> Scale:
    if by_magnitude(reading, threshold):
        return log_scale([*values, threshold / 10, threshold * 10])
    span = abs(threshold) or 1.0
    return linear_scale([*values, threshold - span, threshold + span], least_span=span)


def _marks(
    networks: Sequence[Network], read: Mapping[int, Reading], rows: Mapping[str, float], scale: Scale
) -> list[Mark]:
    marks = []
    for i, reading in read.items():
        assert reading.value is not None
        label = f"{networks[i].name}: {reading_value(reading)}, {state_word(reading)}"
        state = {State.FIRE: "fire", State.PASS: "pass"}.get(reading.state, "open")
        x, y = _along(scale.share(reading.value)), rows[networks[i].method]
        marks.append(Mark(x, y, state, not scale.holds(reading.value), label, i))
    return marks


def _same(same: Range | None, scale: Scale) -> tuple[float, float] | None:
    if same is None:
        return None
    low, high = same
    left = LEFT if low is None else _along(scale.share(low))
    right = RIGHT if high is None else _along(scale.share(high))
    return (left, right) if right > left else None


def _same_words(same: Range | None) -> str:
    if same is None:
        return ""
    low, high = same
    if low is None and high is None:
        return "No threshold on this diagnostic alone changes a verdict."
    ends = [f"from {low:.3g}" if low is not None else "", f"to {high:.3g}" if high is not None else ""]
    return f"Grey bar: thresholds {' '.join(filter(None, ends))} leave every verdict as it is."
