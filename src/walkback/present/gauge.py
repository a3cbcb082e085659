"""The picture of one reading: its scale, the side that fires, the threshold, the interval, the figure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from walkback.present.numbers import by_magnitude, interval_ends, reading_value, round_number, with_unit
from walkback.present.outline import fires_when, interval_text, state_word
from walkback.present.scale import Scale, Tick, linear_scale, log_scale
from walkback.protocol.records import Reading

WIDTH, HEIGHT = 340, 70
_LEFT, _RIGHT = 14, 326


@dataclass(frozen=True)
class Gauge:
    """Positions along the picture, in its own units."""

    threshold: float
    side: str
    """What stands above the threshold: the rule, with an arrow to the side that fires."""
    anchor: str
    fires_from: float
    fires_to: float
    ticks: tuple[Tick, ...]
    """The share of each tick is its position here."""
    value: float | None
    beyond: str
    """`left` or `right` where the figure lies off the scale at that end."""
    interval: tuple[float, float] | None
    described: str
    """The same in words, for those who do not see it."""

    @property
    def fires_above(self) -> bool:
        """Whether the firing side is the right one."""
        return self.fires_to > self.threshold


def gauge(reading: Reading) -> Gauge | None:
    """The picture of a reading, or None where it has no threshold to be drawn against."""
    if reading.threshold is None or reading.comparison is None:
        return None
    scale = _scale(reading, reading.threshold)
    threshold = _along(scale.share(reading.threshold))
    above = reading.comparison == ">"
    value = reading.value
    shown = value is not None and not math.isnan(value)
    return Gauge(
        threshold=threshold,
        side=_side(reading, above),
        anchor="start" if threshold < WIDTH / 3 else "end" if threshold > 2 * WIDTH / 3 else "middle",
        fires_from=threshold if above else _LEFT,
        fires_to=_RIGHT if above else threshold,
        ticks=tuple(Tick(_along(t.share), t.label) for t in scale.ticks(4 if scale.logarithmic else 6)),
        value=_along(scale.share(value)) if value is not None and shown else None,
        beyond=_beyond(scale, value) if value is not None and shown else "",
        interval=_interval(reading, scale),
        described=_described(reading),
    )


def _side(reading: Reading, above: bool) -> str:
    limit = with_unit(round_number(reading.threshold), reading.unit)
    return f"fires above {limit} →" if above else f"← fires below {limit}"


def _along(share: float) -> float:
    return round(_LEFT + share * (_RIGHT - _LEFT), 1)


def _beyond(scale: Scale, value: float) -> str:
    if scale.holds(value):
        return ""
    return "right" if scale.share(value) > 0.5 else "left"


def _scale(reading: Reading, threshold: float) -> Scale:
    bounds = interval_ends(reading) or ()
    values = [v for v in (threshold, reading.value, *bounds) if v is not None]
    magnitudes = by_magnitude(reading, threshold)
    if magnitudes and all(v >= 0 or not math.isfinite(v) for v in values):
        return log_scale([*values, threshold / 30, threshold * 30])
    span = abs(threshold) or 1.0
    return linear_scale([*values, threshold - span, threshold + span], least_span=span)


def _interval(reading: Reading, scale: Scale) -> tuple[float, float] | None:
    ends = interval_ends(reading)
    if ends is None or any(math.isnan(end) for end in ends):
        return None
    low, high = ends
    return _along(scale.share(low)), _along(scale.share(high))


def _described(reading: Reading) -> str:
    parts = [state_word(reading), reading_value(reading), fires_when(reading), interval_text(reading)]
    return ", ".join(part for part in parts if part)
