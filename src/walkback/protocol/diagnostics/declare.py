"""What a diagnostic says of itself: the thresholds that it fires at, and the quantities that it measures. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Comparison = Literal[">", "<"]
Axis = Literal["linear", "log"]
Kind = Literal["number", "norm", "cosine", "count", "broken"]


def log_grid(low: int, high: int) -> tuple[float, ...]:
    """From 10**low to 10**high, four points to the decade."""
    return tuple(float(f"{10 ** (step / 4):.4g}") for step in range(4 * low, 4 * high + 1))


def even_grid(low: float, high: float, step: float) -> tuple[float, ...]:
    """From low to high in equal steps."""
    return tuple(round(low + step * i, 6) for i in range(round((high - low) / step) + 1))


@dataclass(frozen=True)
class Threshold:
    """A value at which a diagnostic fires, and what users may set it to."""

    default: float | None
    """None where the diagnostic does not use it unless it is given."""
    fires: Comparison
    """On which side of it the diagnostic fires."""
    label: str
    """What is compared with it: `growth of one block`."""
    above: float | None = None
    """It must be larger than this."""
    least: float | None = None
    most: float | None = None
    unit: str = ""
    sweep: tuple[float, ...] = ()
    """The values that a sensitivity study tries; some around the default where none are given."""
    axis: Axis = "linear"
    """On which its distances are told: as differences, or as ratios."""
    replaces: str = ""
    """The threshold that is not judged by where this one is given."""

    def fault(self, value: float | None) -> str:
        """Why a value cannot be taken; empty where it can."""
        if value is None:
            return "" if self.default is None else "expected a number"
        if not math.isfinite(value):
            return "expected a finite number"
        if self.above is not None and not value > self.above:
            return f"expected a number above {self.above:g}"
        low, high = self.least, self.most
        if (low is not None and value < low) or (high is not None and value > high):
            if high is None:
                return f"expected a number of at least {low:g}"
            return f"expected a number of at most {high:g}" if low is None else f"expected one from {low:g} to {high:g}"
        return ""

    @property
    def tried(self) -> tuple[float, ...]:
        """The values of a sensitivity sweep."""
        if self.sweep or not self.default:
            return self.sweep
        return tuple(self.default * 10 ** (step / 4) for step in range(-8, 9))


@dataclass(frozen=True)
class Quantity:
    """A number, or one number per site, that a diagnostic adds to `Measurements`."""

    name: str
    """What it is called in records: a field of `Measurements`, or a key of its `extra`."""
    label: str = ""
    """What it is called in tables and pictures; the name where none is given."""
    kind: Kind = "number"
    """What it can be: a norm is never negative, a cosine (or a signed share) lies in [−1, 1], and `broken` counts
    samples with NaN or Inf."""
    unit: str = ""
    per_site: bool = False
    axis: Axis = "linear"
    traced: bool = False
    """Whether every line of a trace keeps it."""
    interval: str = ""
    """The quantity that holds its intervals, where there is one."""

    @property
    def shown(self) -> str:
        """The label, or the name in words."""
        return self.label or self.name.replace("_", " ")
