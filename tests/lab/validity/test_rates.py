"""Bounds, areas and thresholds against slow twins."""

from __future__ import annotations

import math
from itertools import pairwise
from math import comb

import numpy as np
import pytest

from walkback.lab.validity.rates import Rate, area, curve


def tail(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) ≥ k), summed."""
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def by_bisection(holds) -> float:
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@pytest.mark.parametrize(("k", "n"), [(0, 29), (1, 29), (27, 29), (29, 29), (0, 300), (2, 300), (5, 10)])
def test_bounds_are_those_of_clopper_and_pearson(k, n):
    rate = Rate(k, n)
    lower = 0.0 if k == 0 else by_bisection(lambda p: tail(k, n, p) < 0.05)
    upper = 1.0 if k == n else by_bisection(lambda p: 1 - tail(k + 1, n, p) > 0.05)
    assert rate.at_least == pytest.approx(lower, abs=1e-9)
    assert rate.at_most == pytest.approx(upper, abs=1e-9)


def test_bounds_cover():
    """Over every outcome, the bounds hold with a probability of at least 95 %."""
    n = 29
    for p in (0.02, 0.3, 0.9):
        weights = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        assert sum(w for k, w in enumerate(weights) if Rate(k, n).at_least <= p) >= 0.95
        assert sum(w for k, w in enumerate(weights) if Rate(k, n).at_most >= p) >= 0.95


def test_of_nothing():
    rate = Rate(0, 0)
    assert math.isnan(rate.share)
    assert (rate.at_least, rate.at_most) == (0.0, 1.0)
    assert area([], [1.0], high=True) is None


@pytest.mark.parametrize("high", [True, False])
def test_the_area_is_the_share_of_pairs_in_order(high):
    generator = np.random.default_rng(0)
    faulty, healthy = generator.integers(6, size=40).tolist(), generator.integers(4, size=60).tolist()
    wins = [(f > h if high else f < h) + 0.5 * (f == h) for f in faulty for h in healthy]
    assert area(faulty, healthy, high=high) == pytest.approx(sum(wins) / len(wins))
    points = curve(faulty, healthy, high=high)
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (1.0, 1.0)
    trapezes = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
    assert trapezes == pytest.approx(sum(wins) / len(wins))


def test_nan_is_no_sign_of_health():
    assert area([math.nan], [1.0, 2.0], high=True) == 1.0
    assert area([math.nan], [1.0, 2.0], high=False) == 1.0
