"""How a figure is written: three significant digits, plain from 1e-3 to 1e5, scientific beyond.

One rule for every rendering, so that a number in a table is found again in the text by searching for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from walkback.protocol.records import Interval, Reading

ABSENT = "–"
"""What stands where nothing was measured: never an empty cell, never a zero."""

DIGITS = 3
FIDELITY_DIGITS = 4
"""Fidelity is read against 0.99, which three digits could not be told from."""

_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e5
_MOST_DIGITS = 17


def figure(value: float | None, digits: int = DIGITS) -> str:
    """A number with this many significant digits: 0.00801, 35800, 4.35e+08; NaN and Infinity as words."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    # Rounding comes first: 99999.9 rounds to 1.00e+05 and is no longer in the plain range.
    scientific = f"{value:.{digits - 1}e}"
    rounded = float(scientific)
    if rounded == 0:
        return "0"
    if not _PLAIN_FROM <= abs(rounded) < _PLAIN_BELOW:
        return scientific
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"


def signed(value: float | None, digits: int = DIGITS) -> str:
    """A figure whose sign carries meaning, so a plus is written too."""
    text = figure(value, digits)
    return f"+{text}" if value is not None and math.isfinite(value) and value > 0 else text


def against(value: float | None, threshold: float | None, write: Callable[..., str] = figure) -> str:
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
    return ABSENT if value is None else f"{value:g}" if math.isfinite(value) else figure(value)


def percent(score: float | None) -> str:
    """A score in [0, 1] in percent with two decimals, so that two of them give the margin shown."""
    if score is None:
        return ABSENT
    return f"{100 * score:.2f} %" if math.isfinite(score) else figure(score)


def count(number: int, noun: str) -> str:
    """A number of things: `1 site`, `10,000 samples`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def reading_figure(reading: Reading) -> str:
    """The figure of a reading with its unit; a margin in percentage points keeps its sign."""
    if reading.figure is None:
        return ABSENT
    write = signed if reading.unit == "pp" else figure
    return with_unit(against(reading.figure, reading.threshold, write), reading.unit)


def interval_bounds(reading: Reading) -> tuple[str, str] | None:
    """The two ends of a reading's interval, written as its figure is."""
    if reading.interval is None:
        return None
    write = signed if reading.unit == "pp" else figure
    ends = (reading.interval.low, reading.interval.high)
    low, high = (against(end, reading.threshold, write) for end in ends)
    return low, high


def level(interval: Interval) -> str:
    """The confidence level of an interval: `95 %`."""
    return f"{100 * interval.level:g} %"


def with_unit(text: str, unit: str) -> str:
    """A written number and its unit; the multiplication sign stands close, as in 12×; NaN has no unit."""
    if not unit or text[-1].isalpha():
        return text
    return f"{text}{unit}" if unit == "×" else f"{text} {unit}"
