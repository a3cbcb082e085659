"""Axes: where a figure lies between the two ends of a scale, and which round numbers mark it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from walkback.present.numbers import round_number

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN_DECADES = 3


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: how far along it lies, from 0 to 1, and what it says."""

    share: float
    label: str


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic axis; the ends of a logarithmic one are exponents of ten."""

    low: float
    high: float
    logarithmic: bool

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1; what lies beyond an end is put at it."""
        place = self._place(value)
        if math.isnan(place):
            return 1.0
        # Halves, because the difference of two huge ends would overflow.
        along = (place / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return min(max(along, 0.0), 1.0)

    def holds(self, value: float) -> bool:
        """Whether the value has a place between the ends."""
        return math.isfinite(value) and self.low <= self._place(value) <= self.high

    def _place(self, value: float) -> float:
        if not self.logarithmic:
            return value
        return math.log10(value) if value > 0 else -math.inf if value <= 0 else value

    def ticks(self, most: int = 5) -> list[Tick]:
        """A few round numbers from one end to the other."""
        step = self._step(most)
        first = math.ceil(self.low / step - 1e-9)
        marks = [(first + i) * step for i in range(most + 1)]
        inside = [m for m in marks if m <= self.high + 1e-9 * abs(step)]
        span = self.high - self.low
        return [Tick((m - self.low) / span, self._label(m)) for m in inside]

    def _step(self, most: int) -> float:
        rough = (self.high - self.low) / most
        if self.logarithmic:
            return max(1.0, math.ceil(rough))
        power = 10.0 ** math.floor(math.log10(rough))
        return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))

    def _label(self, mark: float) -> str:
        if not self.logarithmic:
            return round_number(round(mark, 12)) if abs(mark) > 1e-12 else "0"
        if abs(mark) <= _PLAIN_DECADES:
            return round_number(10.0**mark)
        return "10" + str(round(mark)).translate(_SUPERSCRIPTS)


def log_scale(values: Iterable[float], least_decades: int = 2) -> Scale:
    """Whole decades that hold every positive finite value."""
    logs = [math.log10(v) for v in values if math.isfinite(v) and v > 0] or [0.0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    missing = max(least_decades - (high - low), 0)
    return Scale(low - missing // 2, high + missing - missing // 2, logarithmic=True)


def linear_scale(values: Iterable[float], least_span: float) -> Scale:
    """An interval that holds every finite value with a little room at both ends."""
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    # An axis that ends near the largest float has no room beyond it.
    low, high = (max(min(end, 1e300), -1e300) for end in (min(finite), max(finite)))
    # Beside a huge value the least span would be lost in rounding.
    room = max(0.08 * (high - low), (least_span - (high - low)) / 2, 1e-6 * max(abs(low), abs(high))) or 0.1
    return Scale(low - room, high + room, logarithmic=False)
