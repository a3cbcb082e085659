"""How figures, intervals and scores are written in every rendering, by the rule of `protocol.wording`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from walkback.present.plain import one_line
from walkback.protocol.diagnostics.direction_drift import DirectionDrift
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.records import Interval, Reading
from walkback.protocol.wording import ABSENT, DIGITS, signed, written

if TYPE_CHECKING:
    from walkback.protocol.seeds import DiagnosticSummary

__all__ = [
    "ABSENT",
    "against",
    "by_magnitude",
    "count",
    "interval_bounds",
    "is_margin",
    "level",
    "percent",
    "reading_value",
    "round_number",
    "signed",
    "with_unit",
    "written",
]

_MOST_DIGITS = 17


def against(value: float | None, threshold: float | None, write: Callable[..., str] = written) -> str:
    """A figure with as many digits as it takes to see on which side of its threshold it lies."""
    if value is None or threshold is None or not math.isfinite(value) or value == threshold:
        return write(value)
    for digits in range(DIGITS, _MOST_DIGITS):
        rounded = float(f"{value:.{digits - 1}e}")
        if rounded != threshold and (rounded > threshold) == (value > threshold):
            return write(value, digits)
    return write(value, _MOST_DIGITS)


def round_number(value: float | None) -> str:
    """A number that someone chose, such as a threshold, as short as it can be written: 50, 0.3, 1e-07."""
    return ABSENT if value is None else f"{value:g}" if math.isfinite(value) else written(value)


def percent(score: float | None) -> str:
    """A score in [0, 1] in percent with two decimals, so that two of them give the margin shown."""
    if score is None:
        return ABSENT
    return f"{100 * score:.2f} %" if math.isfinite(score) else written(score)


def count(number: int, noun: str) -> str:
    """A number of things: `1 site`, `10,000 samples`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def reading_value(reading: Reading) -> str:
    """The figure of a reading with its unit; a margin keeps its sign."""
    if reading.value is None:
        return ABSENT
    write = signed if is_margin(reading) else written
    return with_unit(against(reading.value, reading.threshold, write), reading.unit)


def is_margin(reading: Reading | DiagnosticSummary) -> bool:
    """Whether a figure is a difference, whose sign says who is ahead: in points, or as its diagnostic declares."""
    diagnostic = by_letter(reading.letter)
    return reading.unit == "pp" or (diagnostic is not None and diagnostic.signed)


def by_magnitude(reading: Reading, threshold: float) -> bool:
    """Whether a figure is seen on a logarithmic scale: as its diagnostic declares, or by its threshold.

    Quantities judged by orders of magnitude have thresholds far from one; margins and cosines do not.
    """
    diagnostic = by_letter(reading.letter)
    declared = diagnostic is not None and any(each.axis == "log" for each in diagnostic.thresholds.values())
    return not is_margin(reading) and threshold > 0 and (declared or threshold < 0.01 or threshold > 10)


def interval_ends(reading: Reading) -> tuple[float, float] | None:
    """The ends of a reading's interval, none beyond what the value can be: a jackknife of a cosine may end above 1."""
    if reading.interval is None:
        return None
    low, high = reading.interval.low, reading.interval.high
    if reading.letter != DirectionDrift.letter or not (math.isfinite(low) and math.isfinite(high)):
        return low, high
    return max(low, -1.0), min(high, 1.0)


def interval_bounds(reading: Reading) -> tuple[str, str] | None:
    """The two ends of a reading's interval, written as its figure is."""
    ends = interval_ends(reading)
    if ends is None:
        return None
    write = signed if is_margin(reading) else written
    low, high = (against(end, reading.threshold, write) for end in ends)
    return low, high


def level(interval: Interval) -> str:
    """The confidence level of an interval: `95 %`."""
    return f"{100 * interval.level:g} %"


def with_unit(text: str, unit: str) -> str:
    """A written number and its unit; the multiplication sign stands close, as in 12×; NaN has no unit."""
    if not unit or text[-1].isalpha():
        return text
    return f"{text}{unit}" if unit == "×" else f"{text} {one_line(unit)}"
