"""A figure over the sites as a line with its intervals, its threshold and, for Γ, its null band."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from walkback.present.numbers import written
from walkback.present.plain import site_label
from walkback.present.scale import Scale, Tick, linear_scale, log_scale
from walkback.protocol.diagnostics.declare import LEAST_SPAN
from walkback.protocol.records import Interval

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 42, 350, 14, 162
_MOST_POINTS = 64
_END_LENGTH = 24
"""Characters of the name at each end of the axis."""

Level = tuple[float, Literal[">", "<"]]
Pairs = Sequence[tuple[float, float] | None]


@dataclass(frozen=True)
class Point:
    """One site: where it lies, how it is drawn, and what it says."""

    x: float
    y: float
    shape: Literal["dot", "deciding", "lost"]
    label: str
    whisker: tuple[float, float] | None = None


@dataclass(frozen=True)
class Chart:
    """Everything that is drawn, in the picture's own units."""

    paths: tuple[str, ...]
    points: tuple[Point, ...]
    band: str
    threshold: float | None
    fires: tuple[float, float] | None
    """Top and height of the side that fires."""
    zero: float | None
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lost: bool
    """Whether a site has no place on the scale."""


@dataclass(frozen=True)
class Series:
    """What is to be drawn, in figures."""

    values: Sequence[float | None]
    names: Sequence[str]
    symbol: str
    logarithmic: bool
    intervals: Sequence[Interval] | None = None
    level: Level | None = None
    band: Pairs | None = None
    least_span: float = LEAST_SPAN
    deciding: frozenset[int] = frozenset()


def chart(series: Series) -> Chart:
    """Lay the series out."""
    scale = _scale(series)
    points = [_point(series, scale, site) for site in range(len(series.values))]
    drawn = [p for p in points if p is not None and (len(points) <= _MOST_POINTS or p.shape != "dot")]
    threshold = _down(scale.share(series.level[0])) if series.level else None
    return Chart(
        paths=tuple(_paths(points)),
        points=tuple(drawn[:_MOST_POINTS]),
        band=_band(series, scale),
        threshold=threshold,
        fires=_fires(series.level, threshold),
        zero=_down(scale.share(0.0)) if not series.logarithmic and scale.holds(0.0) else None,
        x_ticks=tuple(_x_ticks(series.names)),
        y_ticks=tuple(Tick(_down(t.share), t.label) for t in scale.ticks(5)),
        lost=any(p is not None and p.shape == "lost" for p in points),
    )


def _across(site: int, sites: int) -> float:
    return round(LEFT + 10 + (RIGHT - LEFT - 20) * (site / (sites - 1) if sites > 1 else 0.5), 1)


def _down(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 1)


def _scale(series: Series) -> Scale:
    values = [v for v in series.values if v is not None]
    values += [end for i in series.intervals or () for end in (i.low, i.high)]
    values += [end for pair in series.band or () if pair for end in pair]
    values += _with_room(*series.level, series.logarithmic) if series.level else []
    return log_scale(values) if series.logarithmic else linear_scale([*values, 0.0], series.least_span)


def _with_room(threshold: float, comparison: str, logarithmic: bool) -> list[float]:
    """The threshold and a place beyond it, so that the side that fires is seen even if nothing is there."""
    outward = 1 if comparison == ">" else -1
    return [threshold, threshold * 5.0**outward if logarithmic else threshold + 0.1 * outward]


def _point(series: Series, scale: Scale, site: int) -> Point | None:
    value = series.values[site]
    if value is None:
        return None
    interval = series.intervals[site] if series.intervals else None
    says = f"{series.names[site]}: {series.symbol} {written(value)}"
    says += f", {written(interval.low)} to {written(interval.high)}" if interval else ""
    shape: Literal["dot", "deciding", "lost"] = "deciding" if site in series.deciding else "dot"
    return Point(
        x=_across(site, len(series.values)),
        y=_down(scale.share(value)),
        shape=shape if scale.holds(value) else "lost",
        label=says,
        whisker=_whisker(interval, scale),
    )


def _whisker(interval: Interval | None, scale: Scale) -> tuple[float, float] | None:
    if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
        return None
    return _down(scale.share(interval.low)), _down(scale.share(interval.high))


def _paths(points: Iterable[Point | None]) -> Iterable[str]:
    """One line for every run of sites that have a place on the scale: a lost site leaves a gap."""
    run: list[str] = []
    for point in [*points, None]:
        if point is not None and point.shape != "lost":
            run.append(f"{point.x},{point.y}")
            continue
        if len(run) > 1:
            yield "M" + " L".join(run)
        run = []


def _band(series: Series, scale: Scale) -> str:
    pairs = [(site, pair) for site, pair in enumerate(series.band or ()) if pair is not None]
    if not pairs:
        return ""
    count = len(series.values)
    # A band over one site would have no width.
    reach = 6.0 if len(pairs) == 1 else 0.0
    upper = [(_across(s, count), _down(scale.share(high))) for s, (_, high) in pairs]
    lower = [(_across(s, count), _down(scale.share(low))) for s, (low, _) in reversed(pairs)]
    corners = [(upper[0][0] - reach, upper[0][1]), *upper, (upper[-1][0] + reach, upper[-1][1]),
               (lower[0][0] + reach, lower[0][1]), *lower, (lower[-1][0] - reach, lower[-1][1])]  # fmt: skip
    return "M" + " L".join(f"{x},{y}" for x, y in corners) + "Z"


def _fires(level: Level | None, threshold: float | None) -> tuple[float, float] | None:
    if level is None or threshold is None:
        return None
    return (TOP, round(threshold - TOP, 1)) if level[1] == ">" else (threshold, round(BOTTOM - threshold, 1))


def _x_ticks(names: Sequence[str]) -> Iterable[Tick]:
    """The names of both ends; every point between them says its own."""
    ends = [(float(LEFT), names[0]), (float(RIGHT), names[-1])]
    return (Tick(across, site_label(name, _END_LENGTH)) for across, name in ends[: len(names)])
