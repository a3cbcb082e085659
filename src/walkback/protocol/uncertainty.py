"""Intervals that need no resampling: order statistics for medians, the jackknife for (c) and ρ.

None of this needs torch; the inputs are NumPy arrays and plain numbers.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from walkback.extras import optional
from walkback.protocol.quantiles import normal_reach, student_reach
from walkback.protocol.records import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVEL = 0.95
SEVERAL = ", each with all its answers counted as one"


@lru_cache(maxsize=256)
def median_ranks(count: int, level: float) -> tuple[int, int] | None:
    """0-based ranks of the order statistics that enclose the median with at least this confidence.

    P(X_(j) ≤ median ≤ X_(k)) = P(j ≤ Bin(n, ½) < k) for any continuous distribution; None where even the
    extremes do not reach the level.
    """
    # Measuring asks for this, and brings SciPy with its engine; judging does without.
    special = optional("scipy.special")
    ranks = np.arange(0, (count + 1) // 2)
    below = special.bdtr(ranks, count, 0.5)  # P(Bin ≤ j)
    inside = np.flatnonzero(1 - 2 * below >= level)
    if inside.size == 0:
        return None
    lower = int(ranks[inside[-1]])
    return lower, count - 1 - lower


def medians_with_intervals(
    values: NDArray[np.float64], level: float = LEVEL
) -> tuple[NDArray[np.float64], tuple[Interval, ...] | None]:
    """The median of each row of (sites, samples), NaN where any value is, and one interval for each.

    The intervals are simultaneous over the rows (Bonferroni); None where there are too few samples for them.
    """
    sites, count = values.shape
    ordered = np.sort(values, axis=1)  # NaN sorts last
    middle = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    medians = np.where(np.isnan(ordered[:, -1]), np.nan, middle)
    ranks = median_ranks(count, 1 - (1 - level) / sites)
    if ranks is None:
        return medians, None
    how = f"order statistics, simultaneous over {sites} sites"
    return medians, tuple(Interval(low=row[ranks[0]], high=row[ranks[1]], level=level, how=how) for row in ordered)


def jackknife_interval(
    estimate: float, left_out: NDArray[np.float64], sizes: NDArray[np.float64], level: float = LEVEL
) -> Interval | None:
    """Estimate ± t·se from the estimates with one group left out, for groups of any sizes.

    With N = Σ m_j and h_j = N/m_j the pseudo-values are h_j·θ − (h_j − 1)·θ_(−j), and the variance is the
    mean over groups of their squared deviations over h_j − 1 (the delete-m_j jackknife).
    """
    groups = len(left_out)
    if groups < 2 or not np.isfinite(left_out).all():
        return None
    share = sizes.sum() / sizes
    pseudo = share * estimate - (share - 1) * left_out
    centre = groups * estimate - np.sum((1 - 1 / share) * left_out)
    variance = np.mean((pseudo - centre) ** 2 / (share - 1))
    reach = student_reach(groups - 1, level) * sqrt(float(variance))
    return Interval(low=estimate - reach, high=estimate + reach, level=level, how=f"jackknife over {groups} groups")


def wilson(score: float, samples: float, level: float = LEVEL) -> tuple[float, float]:
    """The Wilson interval of a binomial proportion."""
    z = normal_reach(level)
    centre = (score + z * z / (2 * samples)) / (1 + z * z / samples)
    reach = z * sqrt(score * (1 - score) / samples + z * z / (4 * samples * samples)) / (1 + z * z / samples)
    return centre - reach, centre + reach


def margin_interval(
    headline: float,
    headline_samples: int,
    baseline: float,
    baseline_samples: int,
    level: float = LEVEL,
    several: bool = False,
) -> Interval:
    """Newcombe's interval for the difference of two proportions, in percentage points.

    The two are taken as independent, which is conservative where both were scored on one test set. Where a sample
    has several answers, as a sequence of tokens has, it counts once: a share of right answers in [0, 1] varies at
    most as much as one answer that is right with the same chance.
    """
    low_h, high_h = wilson(headline, headline_samples, level)
    low_b, high_b = wilson(baseline, baseline_samples, level)
    difference = headline - baseline
    low = difference - sqrt((headline - low_h) ** 2 + (high_b - baseline) ** 2)
    high = difference + sqrt((high_h - headline) ** 2 + (baseline - low_b) ** 2)
    return Interval(
        low=100 * low, high=100 * high, level=level,
        how=f"binomial, over test samples{SEVERAL if several else ''}; variance over seeds not included",
    )  # fmt: skip


def mean_interval(values: NDArray[np.float64], level: float = LEVEL) -> Interval | None:
    """The t interval of a mean over seeds."""
    count = len(values)
    if count < 2 or not np.isfinite(values).all():
        return None
    reach = student_reach(count - 1, level) * float(values.std(ddof=1)) / sqrt(count)
    mean = float(values.mean())
    return Interval(low=mean - reach, high=mean + reach, level=level, how=f"t, over {count} seeds")


def geometric_interval(values: NDArray[np.float64], level: float = LEVEL) -> Interval | None:
    """The t interval of a geometric mean over seeds; None where a figure is not positive.

    Growth and gradients differ by factors from seed to seed, and the interval of their plain mean then reaches below
    zero and holds the truth too seldom.
    """
    if not (values > 0).all():
        return None
    logs = mean_interval(np.log(values), level)
    return logs and Interval(
        low=float(np.exp(logs.low)), high=float(np.exp(logs.high)), level=level, how=f"{logs.how}, of logarithms"
    )
