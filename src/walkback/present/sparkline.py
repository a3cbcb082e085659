"""A series of positive figures as one row of block characters, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
ABSENT = "·"
NON_FINITE = "!"
_LEAST_DECADES = 1.0
"""A series that spans less is drawn as the flat line it is, not stretched to full height."""


def sparkline(values: Sequence[float | None]) -> str:
    """One character per value, lowest to highest; `!` where one is NaN or infinite, `·` where none is.

    Zero and negative values have no place on a logarithmic scale, and are drawn as the lowest level.
    """
    logs = [math.log10(v) for v in values if v is not None and math.isfinite(v) and v > 0]
    low, high = (min(logs), max(logs)) if logs else (0.0, 0.0)
    spare = max(_LEAST_DECADES - (high - low), 0.0)
    # A little below the middle, so that a flat line lies within one level and not on the edge of two.
    low, high = low - spare * 7 / 16, high + spare * 9 / 16
    return "".join(_block(value, low, high) for value in values)


def _block(value: float | None, low: float, high: float) -> str:
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return NON_FINITE
    if value <= 0:
        return LEVELS[0]
    share = (math.log10(value) - low) / (high - low)
    return LEVELS[min(int(share * len(LEVELS)), len(LEVELS) - 1)]
