"""Statistics of comparisons, each against a slow twin in plain NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from walkback.lab.comparisons.differences import over_seeds, paired


def slow_interval(values):
    """Student's interval of a mean, written out."""
    count, mean = len(values), sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1) / count)
    reach = stats.t.ppf(0.975, count - 1) * spread
    return mean - reach, mean + reach


def drawn(seed, shape, share):
    return np.random.default_rng(seed).random(shape) < share


@pytest.mark.parametrize("shape", [(3, 200), (5, 40, 7)])
def test_paired_differences_are_those_of_a_slow_twin(shape):
    first, second = list(drawn(0, shape, 0.7)), list(drawn(1, shape, 0.6))
    found = paired(first, second)
    by_seed = [one.mean() - two.mean() for one, two in zip(first, second, strict=True)]
    by_sample = []
    for sample in range(shape[1]):
        shares = [one[sample].mean() - two[sample].mean() for one, two in zip(first, second, strict=True)]
        by_sample.append(sum(shares) / len(shares))
    assert found["mean"] == pytest.approx(sum(by_seed) / len(by_seed))
    assert found["each"] == pytest.approx(by_seed)
    assert (found["seeds"]["low"], found["seeds"]["high"]) == pytest.approx(slow_interval(by_seed))
    assert (found["samples"]["low"], found["samples"]["high"]) == pytest.approx(slow_interval(by_sample))


def test_accuracy_over_seeds_is_that_of_a_slow_twin():
    found = over_seeds([0.5, 0.6, 0.55])
    assert found["mean"] == pytest.approx(0.55)
    assert (found["low"], found["high"]) == pytest.approx(slow_interval([0.5, 0.6, 0.55]))


def test_one_seed_has_no_interval_over_seeds_and_one_over_samples():
    assert over_seeds([0.5]) == {"mean": 0.5, "seeds": 1, "low": None, "high": None}
    found = paired([drawn(0, 50, 0.7)], [drawn(1, 50, 0.6)])
    assert found["seeds"] == {"low": None, "high": None}
    assert found["samples"]["low"] < found["mean"] < found["samples"]["high"]


def test_what_does_not_vary_has_an_interval_without_width():
    same = [np.array([True, True, False, False])] * 3
    found = paired(same, same)
    assert found["seeds"] == {"low": 0.0, "high": 0.0} == found["samples"]


def test_pairs_are_of_one_seed_each():
    """Swapped seeds change the differences of seeds and leave their mean."""
    first, second = list(drawn(0, (3, 90), 0.7)), list(drawn(1, (3, 90), 0.6))
    found, swapped = paired(first, second), paired(first, second[::-1])
    assert found["mean"] == pytest.approx(swapped["mean"])
    assert found["seeds"] != swapped["seeds"]
