"""The statistics of pitfalls 14 and 15, against the same counted out one by one."""

from __future__ import annotations

from itertools import combinations
from statistics import NormalDist, mean

import numpy as np
import pytest
import torch
from scipy import stats

from walkback.pitfalls.best_seed import against_itself, expected_best
from walkback.pitfalls.unpaired_test import counted, holding, paired_interval, reach, unpaired_interval

SCORES = [0.71, 0.64, 0.69, 0.8, 0.64, 0.75, 0.7]


@pytest.mark.parametrize("tried", range(1, 8))
def test_the_expected_best_is_the_mean_over_all_choices(tried):
    assert expected_best(SCORES, tried) == pytest.approx(mean(map(max, combinations(SCORES, tried))))


def test_the_best_of_ten_normal_scores_is_one_and_a_half_deviations_up():
    scores = [NormalDist().inv_cdf((k + 0.5) / 4000) for k in range(4000)]
    assert expected_best(scores, 10) == pytest.approx(1.5388, abs=0.01)


def test_by_its_best_a_method_beats_itself_and_by_means_it_does_not():
    generator = np.random.default_rng(0)
    by_best, by_means = against_itself(generator.normal(0.7, 0.05, 20).tolist())
    assert by_best > 900
    assert by_means < 50
    assert against_itself([0.7] * 20) == (0, 0)


@pytest.fixture
def answers():
    """Ten test sets of 400 samples; the second network is right on most of what the first is right on."""
    generator = torch.Generator().manual_seed(0)
    first = torch.rand(10, 400, generator=generator) < 0.8
    changed = torch.rand(10, 400, generator=generator) < 0.05
    return first, first ^ changed


def test_pairs_are_counted_on_each_test_set(answers):
    first, second = answers
    for pairs, one, other in zip(counted(first, second), first, second, strict=True):
        assert pairs.first == int((one & ~other).sum())
        assert pairs.second == int((other & ~one).sum())
        assert pairs.p_value == pytest.approx(
            stats.binomtest(pairs.first, pairs.first + pairs.second).pvalue if pairs.first + pairs.second else 1
        )


def test_the_unpaired_interval_is_that_of_two_binomials(answers):
    first, second = answers
    for pairs, one, other in zip(counted(first, second), first.double(), second.double(), strict=True):
        error = (one.var(correction=0) / 400 + other.var(correction=0) / 400).sqrt()
        difference = one.mean() - other.mean()
        expected = [100 * float(difference + sign * 1.96 * error) for sign in (-1, 1)]
        assert unpaired_interval(pairs) == pytest.approx(expected)
        assert reach([paired_interval(pairs)]) < reach([unpaired_interval(pairs)]) / 1.5


def test_intervals_that_hold_a_value_are_counted():
    assert holding([(0, 1), (1, 2), (1.5, 3)], 1) == 2
    assert reach([(0, 1), (1, 4)]) == 1
