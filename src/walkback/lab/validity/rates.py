"""Counts with exact bounds, and how well one quantity tells two groups apart. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
"""Of the one-sided bounds of Clopper and Pearson."""


class Rate(NamedTuple):
    """k of n."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """k / n; NaN of nothing."""
        return self.hits / self.of if self.of else math.nan

    @property
    def at_least(self) -> float:
        """The lower bound: the p at which k or more of n would come with probability 5 %. Of nothing, 0."""
        if not self.hits:
            return 0.0
        from scipy.stats import beta

        return float(beta.ppf(1 - LEVEL, self.hits, self.of - self.hits + 1))

    @property
    def at_most(self) -> float:
        """The upper bound: the p at which k or fewer of n would come with probability 5 %. Of nothing, 1."""
        if self.hits == self.of:
            return 1.0
        from scipy.stats import beta

        return float(beta.ppf(LEVEL, self.hits + 1, self.of - self.hits))


def alarm(rate: Rate) -> str:
    """`3 of 150 (≤ 5.1 %)`."""
    return f"{rate.hits} of {rate.of} (≤ {100 * rate.at_most:.1f} %)" if rate.of else "–"


def found(rate: Rate) -> str:
    """`27 of 29 (≥ 79.8 %)`."""
    return f"{rate.hits} of {rate.of} (≥ {100 * rate.at_least:.1f} %)" if rate.of else "–"


def area(faulty: Sequence[float], healthy: Sequence[float], *, high: bool) -> float | None:
    """The probability that a faulty network lies further to the side that fires than a healthy one; ties count half.

    NaN in a value lies furthest to the side that fires: a quantity that broke is no sign of health. None where a group
    is empty.
    """
    if not faulty or not healthy:
        return None
    ours, theirs = (_signed(values, high) for values in (faulty, healthy))
    ordered = np.sort(theirs)
    below = np.searchsorted(ordered, ours, side="left")
    equal = np.searchsorted(ordered, ours, side="right") - below
    return float((below + 0.5 * equal).mean() / len(theirs))


def curve(faulty: Sequence[float], healthy: Sequence[float], *, high: bool) -> list[tuple[float, float]]:
    """The points of the ROC curve: (share of healthy flagged, share of faulty flagged), from (0, 0) to (1, 1)."""
    ours, theirs = (_signed(values, high) for values in (faulty, healthy))
    points = [(0.0, 0.0)]
    for cut in sorted({*ours.tolist(), *theirs.tolist()}, reverse=True):
        points.append((float((theirs >= cut).mean()), float((ours >= cut).mean())))
    return points


def _signed(values: Sequence[float], high: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    signed = np.asarray(values, dtype=np.float64) * (1 if high else -1)
    return np.where(np.isnan(signed), np.inf, signed)
