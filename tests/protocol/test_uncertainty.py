"""Intervals hold what they promise, on distributions whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walkback.protocol.diagnostics.direction_drift import GROUP, DirectionDrift, GroupSums, Part
from walkback.protocol.judge import judge
from walkback.protocol.records import Interval, Measurements, State
from walkback.protocol.uncertainty import (
    jackknife_interval,
    margin_interval,
    mean_interval,
    median_ranks,
    medians_with_intervals,
    wilson,
)


@given(st.integers(1, 3000), st.sampled_from([0.8, 0.95, 0.99]))
def test_median_ranks_reach_the_level_and_no_narrower_pair_does(count, level):
    from scipy.stats import binom

    def confidence(lower):
        return 1 - 2 * binom.cdf(lower, count, 0.5)

    ranks = median_ranks(count, level)
    if ranks is None:
        assert confidence(0) < level
        return
    lower, upper = ranks
    assert lower + upper == count - 1
    assert confidence(lower) >= level - 1e-12
    assert lower + 1 > (count - 1) / 2 or confidence(lower + 1) < level


def test_median_intervals_cover_all_sites_at_once_at_the_stated_rate():
    rng = np.random.default_rng(0)
    truth = np.exp(np.arange(5.0))  # medians of five lognormal sites
    covered = 0
    trials = 400
    for _ in range(trials):
        values = truth[:, None] * np.exp(rng.standard_normal((5, 201)))
        _, intervals = medians_with_intervals(values, 0.9)
        covered += all(i.contains(t) for i, t in zip(intervals, truth, strict=True))
    assert covered / trials > 0.9 - 3 * (0.09 / trials) ** 0.5


def test_too_few_samples_give_no_interval():
    assert medians_with_intervals(np.ones((5, 4)))[1] is None


def synthetic_gradients(rng, rho, samples, width):
    """Samples with E‖g‖² = 1 and ‖E g‖² = ρ exactly."""
    noise = rng.standard_normal((samples, width)) * ((1 - rho) / width) ** 0.5
    noise[:, 0] += rho**0.5
    return noise


def drift_figures(gradients):
    import torch

    groups = {}
    for number in range(0, len(gradients), GROUP):
        chunk = torch.as_tensor(gradients[number : number + GROUP])
        groups[number // GROUP] = GroupSums(chunk.sum(0), chunk.square().sum().reshape(1), len(chunk))
    return DirectionDrift.summarise(Part(groups, (gradients.shape[1],), 0))


@pytest.mark.parametrize("rho", [0.0, 0.001, 0.0033, 0.02, 0.49])
def test_intervals_of_c_and_of_the_drift_share_cover_the_truth_at_the_stated_rate(rho):
    rng = np.random.default_rng(1)
    expected_c = GROUP * rho / (GROUP * rho + 1 - rho)
    trials, share_hits, c_hits = 300, 0, 0
    for _ in range(trials):
        figures = drift_figures(synthetic_gradients(rng, rho, 10 * GROUP, 64))
        (share_interval,) = figures["drift_share_intervals"]
        assert share_interval.contains(figures["drift_shares"][0])
        assert figures["cross_batch_stability_interval"].contains(figures["cross_batch_stability"])
        share_hits += share_interval.contains(rho)
        c_hits += figures["cross_batch_stability_interval"].contains(expected_c)
    # Both are t intervals of smooth statistics with ten groups: nominal up to their curvature.
    assert share_hits / trials > 0.92
    assert c_hits / trials > 0.92


def test_the_drift_share_is_unbiased_where_a_naive_one_is_not():
    rng = np.random.default_rng(2)
    shares = [drift_figures(synthetic_gradients(rng, 0.0, 256, 32))["drift_shares"][0] for _ in range(300)]
    assert abs(np.mean(shares)) < 4 * np.std(shares) / 300**0.5
    assert min(shares) < 0


def test_an_incomplete_last_group_counts_for_the_share_and_not_for_c():
    rng = np.random.default_rng(3)
    gradients = synthetic_gradients(rng, 0.3, 2 * GROUP + 50, 16)
    figures = drift_figures(gradients)
    assert figures["groups"] == 2
    whole = [gradients[:GROUP].mean(0), gradients[GROUP : 2 * GROUP].mean(0)]
    cosine = whole[0] @ whole[1] / np.linalg.norm(whole[0]) / np.linalg.norm(whole[1])
    assert figures["cross_batch_stability"] == pytest.approx(cosine)
    total, count = gradients.sum(0), len(gradients)
    energy = (gradients**2).sum()
    assert figures["drift_shares"][0] == pytest.approx((total @ total - energy) / (count - 1) / energy)


def test_one_group_leaves_c_unmeasured():
    figures = drift_figures(np.random.default_rng(4).standard_normal((200, 8)))
    assert figures["groups"] == 1
    assert figures["cross_batch_stability"] is None
    assert figures["drift_shares"] is not None


def test_jackknife_of_a_mean_is_the_textbook_interval():
    values = np.random.default_rng(5).standard_normal(12)
    left_out = (values.sum() - values) / 11
    jackknife = jackknife_interval(values.mean(), left_out, np.ones(12))
    textbook = mean_interval(values)
    assert (jackknife.low, jackknife.high) == pytest.approx((textbook.low, textbook.high))


def test_wilson_against_a_published_example():
    # Newcombe 1998, Statistics in Medicine 17, table I: 81 of 263, score method without continuity correction.
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_margin_interval_against_a_published_example():
    # Newcombe 1998, Statistics in Medicine 17, table II: 56/70 against 48/80, method 10.
    interval = margin_interval(56 / 70, 70, 48 / 80, 80)
    assert (interval.low, interval.high) == pytest.approx((5.24, 33.39), abs=5e-3)
    assert "seeds not included" in interval.how


@settings(max_examples=50)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 10**6), st.integers(1, 10**6))
def test_margin_interval_contains_the_margin(headline, baseline, samples, baseline_samples):
    interval = margin_interval(headline, samples, baseline, baseline_samples)
    assert interval.low - 1e-9 <= 100 * (headline - baseline) <= interval.high + 1e-9


@pytest.mark.parametrize(("shares", "samples"), [((0.9, 0.85), (400, 400)), ((0.97, 0.6), (1000, 250))])
def test_the_interval_of_a_margin_covers_as_often_as_it_says(shares, samples):
    """Newcombe's interval of two networks that were scored apart."""
    rng, trials = np.random.default_rng(3), 1500
    counts = [rng.binomial(n, p, trials) / n for n, p in zip(samples, shares, strict=True)]
    truth = 100 * (shares[0] - shares[1])
    found = [margin_interval(h, samples[0], b, samples[1]) for h, b in zip(*counts, strict=True)]
    covered = sum(interval.contains(truth) for interval in found) / trials
    assert 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5 < covered < 0.98
    assert "seeds not included" in found[0].how


def test_the_interval_of_a_mean_over_seeds_covers_as_often_as_it_says():
    rng, trials = np.random.default_rng(4), 2000
    covered = sum(mean_interval(rng.normal(2.0, 0.7, 3)).contains(2.0) for _ in range(trials)) / trials
    assert abs(covered - 0.95) < 3 * (0.05 * 0.95 / trials) ** 0.5


def test_a_c_of_four_groups_that_spans_everything_is_no_pass():
    wide = Measurements(
        cross_batch_stability=-0.15, stability_layer=1, groups=4, residual_norms=(1.0, 1.0, 1.0),
        cross_batch_stability_interval=Interval(low=-0.9, high=0.6, level=0.95, how="jackknife"),
    )  # fmt: skip
    report = judge(wide)
    assert report.reading("c").state is State.UNDECIDED
    assert report.reading("c").interval.high == 0.6
    narrow = wide.model_copy(
        update={"cross_batch_stability_interval": Interval(low=-0.3, high=0.35, level=0.95, how="jackknife")}
    )
    assert judge(narrow).reading("c").state is State.PASS
