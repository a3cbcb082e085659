"""Every interval holds the truth as often as it says, in draws of which the truth is known."""

from __future__ import annotations

import ast
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import walkback
from walkback.protocol.diagnostics.init_growth import InitGrowth
from walkback.protocol.diagnostics.residual_growth import largest_growth_interval
from walkback.protocol.found import Readouts
from walkback.protocol.functional_fields import functional_fields
from walkback.protocol.functional_figures import FORMS, RATES, STEPS, Responses, pearson, perturbation
from walkback.protocol.judge import read
from walkback.protocol.measurements import Measurements
from walkback.protocol.pairing import Answered
from walkback.protocol.readouts import answered_rightly, ridge_scores
from walkback.protocol.uncertainty import medians_with_intervals, wilson

SOURCE = Path(walkback.__file__).parent
LEVEL = 0.95
SIMULATED = {
    "protocol/uncertainty.py:medians_with_intervals": "test_uncertainty, test_since_init, and here with (a) and (i)",
    "protocol/uncertainty.py:jackknife_interval": "test_uncertainty ((c) and the drift share), and here with ρ",
    "protocol/uncertainty.py:margin_interval": "test_uncertainty",
    "protocol/uncertainty.py:mean_interval": "test_uncertainty",
    "protocol/uncertainty.py:geometric_interval": "test_depth_gain",
    "protocol/pairing.py:difference_interval": "test_depth_gain, and here with (hg)",
    "protocol/pairing.py:error_reduction_interval": "test_depth_gain, and here with (r), (w) and (q)",
    "protocol/pairing.py:unpaired_reduction": "test_depth_gain",
    "protocol/functional_fields.py:_normal": "here",
    "protocol/functional_fields.py:_jackknifed": "0 by definition: there is nothing to cover",
    "protocol/diagnostics/residual_growth.py:largest_growth_interval": "here",
    "protocol/diagnostics/init_growth.py:_largest": "here",
    "lab/runs/functional_record.py:_jackknifed": "read from a file; made by `perturbation`, here",
    "lab/runs/functional_record.py:_normal": "from the standard error on file: the arithmetic of `_normal`",
    "watch/trace_line.py:intervals": "read from a trace",
}
"""Where intervals are made, and which file simulates each."""


def least(trials):
    """What 95 % cannot fall under by chance: four standard errors."""
    return LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / trials)


def test_every_place_that_makes_an_interval_is_simulated():
    made = set()
    for path in SOURCE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
            if any(isinstance(name, ast.Name) and name.id == "Interval" for name in calls):
                made.add(f"{path.relative_to(SOURCE).as_posix()}:{function.name}")
    assert made == set(SIMULATED)


def streams(random, samples, grown):
    """‖h_0‖ … ‖h_3‖ of samples that differ in size, where block l multiplies the median by grown[l]."""
    logs = [random.normal(size=samples)]
    for factor in grown:
        logs.append(logs[-1] + math.log(factor) + 0.4 * random.normal(size=samples))
    return np.exp(np.stack(logs))


@pytest.mark.parametrize("samples", [60, 400])
def test_of_the_largest_growth_of_a_block(samples):
    """Conservative: two medians of the same samples are taken as if they went apart."""
    random, trials = np.random.default_rng(1), 400
    found = [largest_growth_interval(medians_with_intervals(streams(random, samples, (1.2, 3.0, 0.8)))[1])
             for _ in range(trials)]  # fmt: skip
    assert np.mean([interval.contains(3.0) for interval in found]) > least(trials)


@pytest.mark.parametrize("samples", [60, 400])
def test_of_the_largest_growth_since_init(samples):
    random, trials, held = np.random.default_rng(2), 400, 0
    for _ in range(trials):
        medians, intervals = medians_with_intervals(streams(random, samples, (4.0, 1.0, 0.5)))
        measured = Measurements(growth_from_init=medians, growth_from_init_intervals=intervals)
        held += InitGrowth().judge(measured).interval.contains(4.0)
    assert held / trials > least(trials)


@pytest.mark.parametrize(("samples", "share"), [(40, 0.9), (200, 0.5), (1000, 0.97)])
def test_of_one_accuracy(samples, share):
    """Wilson's: over all shares 95 % on average, and at each not far under it."""
    random, trials = np.random.default_rng(3), 2000
    bounds = [wilson(count / samples, samples) for count in random.binomial(samples, share, trials)]
    assert np.mean([low <= share <= high for low, high in bounds]) > LEVEL - 0.02


def responses(random, samples, slopes):
    """What samples of different size and slope answer at some sites: told (B, M), and the change of the loss."""
    sites = []
    for slope in slopes:
        told = np.exp(0.3 * random.normal(size=(samples, 1))) * random.normal(size=(samples, 4))
        own = slope * (1 + 0.5 * random.normal(size=(samples, 1)))
        sites.append((told, own * told + random.normal(size=told.shape)))
    return sites


def site_of(told, changes, nudged):
    ones = np.ones(len(told))
    return Responses(
        hidden_norms=ones, credit_norms=ones, epsilons=(1.0,) * len(STEPS),
        predicted=np.repeat(told[:, None], len(FORMS), axis=1), changes=np.repeat(changes[:, None], len(STEPS), axis=1),
        nudged=np.broadcast_to(nudged[:, None, None], (len(told), len(RATES), len(FORMS))), rounding=0 * ones,
    )  # fmt: skip


SLOPES = (0.3, 0.3, 2.0)


@cache
def true_correlations():
    return [pearson(*pair) for pair in responses(np.random.default_rng(4), 400_000, SLOPES)]


@pytest.mark.parametrize("samples", [64, 256])
def test_of_the_functional_tests_and_of_their_means(samples):
    """ρ at each site and over those behind h_0, and the nudge, whose changes are as skewed as losses are.

    Run files hold the interval of the correlation without Fisher's transform: of few samples it holds a large one, here
    .84, less often than it says.
    """
    random, trials = np.random.default_rng(5), 400
    truth = true_correlations()
    deep, skew = np.mean(truth[1:]), math.exp(0.08)
    held = {"rho": 0, "mean": 0, "correlation": 0, "nudge": 0, "nudge mean": 0}
    for _ in range(trials):
        drawn = responses(random, samples, SLOPES)
        nudged = [np.exp(0.4 * random.normal(size=samples)) - skew for _ in SLOPES]
        sites = [site_of(*pair, own) for pair, own in zip(drawn, nudged, strict=True)]
        fields = functional_fields(sites)
        whole = perturbation(*drawn[2 if samples > 64 else 1])
        there = truth[2 if samples > 64 else 1]
        held["rho"] += fields["perturbation_rho_intervals"][2].contains(truth[2])
        held["mean"] += fields["scaled_rho_mean_interval"].contains(deep)
        held["correlation"] += whole.low <= there <= whole.high
        held["nudge"] += fields["nudge_intervals"][0].contains(0)
        held["nudge mean"] += fields["nudge_mean_interval"].contains(0)
    assert {name: count / trials for name, count in held.items() if count / trials <= least(trials)} == {}


def sites_and_own(random, samples):
    """h_0 and h_L of three classes, of which h_L tells more, and what a head that is nearly right says of h_L."""
    labels = random.integers(0, 3, samples)
    noise = random.normal(size=(samples, 10))
    first, last = noise.copy(), noise.copy()
    first[:, :3] += 0.7 * np.eye(3)[labels]
    last[:, :3] += 1.6 * np.eye(3)[labels]
    return first, last, labels, last[:, :3].argmax(axis=1) == labels


def test_of_gains_over_readouts():
    """Against readouts that are fitted on as many other samples, and asked about 20,000."""
    random, samples, trials = np.random.default_rng(6), 400, 250
    first, last, labels, own = sites_and_own(random, 20_000)
    errors = []
    for _ in range(60):
        fitted = sites_and_own(random, round(0.8 * samples))
        targets = np.eye(3)[fitted[2]]
        errors.append([(ridge_scores(fitted[n], targets, (first, last)[n]).argmax(1) != labels).mean() for n in (0, 1)])
    before, behind = np.mean(errors, axis=0)
    mine = (~own).mean()
    truth = {"r": 1 - behind / before, "w": 1 - mine / before, "q": 1 - mine / behind, "hg": 100 * (behind - mine)}
    held = dict.fromkeys(truth, 0)
    for _ in range(trials):
        *sites, drawn, right = sites_and_own(random, samples)
        correct = tuple(Answered.of(answered_rightly(site, drawn, 3)) for site in sites)
        readouts = Readouts(correct=correct, own=Answered.of(right), folds=5, widths=(10, 10), most_width=512)
        readings = {reading.letter: reading for reading in read(Measurements(readouts=readouts, samples=samples))}
        for letter, value in truth.items():
            held[letter] += readings[letter].interval.contains(value)
    assert {letter: count / trials for letter, count in held.items() if count / trials <= least(trials)} == {}
