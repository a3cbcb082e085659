"""Linear readouts of the sites, against slow ridge regressions that are solved and left out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import walkback
from walkback import DiagnosticThresholds, Measurements, State
from walkback.protocol.diagnostics.linear_readouts import gain_interval
from walkback.protocol.found import Readouts
from walkback.protocol.pairing import Answered, Pairs
from walkback.protocol.readout_fields import feature_count
from walkback.protocol.readout_meter import features, reduced
from walkback.protocol.readouts import STRENGTHS, answered_rightly, fold_of, ridge_scores
from walkback.protocol.uncertainty import wilson


def ridge_slow(seen, targets, unseen):
    """Fitted again without each sample for every strength, by solving the normal equations with an intercept."""
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    scale = np.array([d if d > 0 else 1.0 for d in deviation])
    x, new = (seen - mean) / scale, (unseen - mean) / scale
    n, d = x.shape

    def fit(rows, answers, strength):
        wide = np.column_stack([rows, np.ones(len(rows))])
        penalty = strength * n * np.diag([1.0] * d + [0.0])
        return np.linalg.solve(wide.T @ wide + penalty, wide.T @ answers)

    errors = []
    for strength in STRENGTHS:
        total = 0.0
        for i in range(n):
            rest = [j for j in range(n) if j != i]
            guess = np.append(x[i], 1.0) @ fit(x[rest], targets[rest], strength)
            total += float(((guess - targets[i]) ** 2).sum())
        errors.append(total)
    best = STRENGTHS[int(np.argmin(errors))]
    return np.column_stack([new, np.ones(len(new))]) @ fit(x, targets, best)


@pytest.mark.parametrize(("samples", "width", "signal"), [(30, 4, 2.0), (24, 8, 0.5), (14, 20, 1.0), (25, 6, 0.0)])
def test_scores_are_those_of_a_ridge_whose_strength_was_left_out_for(samples, width, signal):
    random = np.random.default_rng(samples)
    labels = random.integers(0, 3, samples)
    x = random.normal(size=(samples, width))
    x[:, :3] += signal * np.eye(3)[labels]
    x[:, -1] = 5.0  # a feature that never varies
    new = random.normal(size=(7, width))
    found = ridge_scores(x, np.eye(3)[labels], new)
    assert found == pytest.approx(ridge_slow(x, np.eye(3)[labels], new), abs=1e-8)


def test_every_sample_is_answered_by_a_readout_that_never_saw_it():
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 60)
    x = random.normal(size=(60, 5))
    right = answered_rightly(x, labels, 2)
    fold = fold_of(np.arange(60))
    for number in range(5):
        held = fold == number
        guess = ridge_scores(x[~held], np.eye(2)[labels[~held]], x[held]).argmax(axis=1)
        assert right[held].tolist() == (guess == labels[held]).tolist()
    # Labels that have nothing to do with the features are not learnt by heart.
    wide = random.normal(size=(200, 300))
    assert answered_rightly(wide, random.integers(0, 2, 200), 2).mean() < 0.65


def test_folds_are_even_and_depend_on_positions_alone():
    folds = fold_of(np.arange(5000))
    assert all(900 < (folds == number).sum() < 1100 for number in range(5))
    assert fold_of(np.arange(100, 200)).tolist() == folds[100:200].tolist()


def test_wide_features_keep_their_inner_products_on_average():
    torch.manual_seed(0)
    rows = torch.randn(40, 6000, dtype=torch.float64)
    rows[1] = rows[0] + 0.5 * rows[1]
    small = reduced(rows)
    assert small.shape == (40, 512)
    assert torch.equal(small, reduced(rows))
    before, after = (torch.nn.functional.cosine_similarity(x[0], x[1], dim=0) for x in (rows, small))
    assert abs(before - after) < 4 / math.sqrt(512)
    assert reduced(rows[:, :512]).equal(rows[:, :512])


def test_tokens_and_channels_become_one_vector():
    tokens = torch.arange(24.0).view(2, 3, 4)
    assert features(tokens)[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    maps = torch.arange(32.0).view(1, 2, 4, 4)
    assert features(maps)[0].tolist() == [2.5, 4.5, 10.5, 12.5, 18.5, 20.5, 26.5, 28.5]


class Net(nn.Module):
    """h_0 is x; the block multiplies its first two entries, whose sign is the class; the head reads h_1."""

    def __init__(self, useful=True):
        super().__init__()
        self.blocks = nn.ModuleList([Product(useful)])
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Product(nn.Module):
    def __init__(self, useful):
        super().__init__()
        self.useful, self.scale = useful, nn.Parameter(torch.ones(()))

    def forward(self, x):
        product = x[:, :1] * x[:, 1:2]
        return x + self.scale * torch.cat([x[:, :2] * 0, product if self.useful else 0 * product, x[:, 3:] * 0], dim=1)


def batches_of_a_product(samples=400):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(samples, 6, generator=generator)
    x[:, 2] = 0.05 * x[:, 2]
    return [(part, (part[:, 0] * part[:, 1] > 0).long()) for part in x.split(90)]


def diagnosed(useful, **arguments):
    torch.manual_seed(3)
    model = Net(useful)
    return walkback.diagnose(model, batches_of_a_product(), blocks="blocks.*", readouts=True, **arguments)


def test_a_block_that_computes_what_is_asked_for_is_seen_and_an_idle_one_too():
    report = diagnosed(useful=True)
    gain = report.reading("r")
    assert gain.value > 0.8
    assert gain.interval.low > 0.7
    assert gain.state is State.REPORTED
    assert "Readouts per site" in gain.sentence
    assert report.reading("q").value < 0  # its head was never trained
    idle = diagnosed(useful=False).reading("r")
    assert abs(idle.value) < 0.1
    assert idle.interval.contains(0)


def test_the_sites_of_the_network_are_read_as_the_twin_reads_them():
    report, batches = diagnosed(useful=True), batches_of_a_product()
    x = np.concatenate([x.double().numpy() for x, _ in batches])
    y = np.concatenate([y.numpy() for _, y in batches])
    behind = x.copy()
    behind[:, 2] += x[:, 0] * x[:, 1]
    shares = [answered_rightly(site, y, 2).mean() for site in (x, behind)]
    assert [each.share for each in report.readouts.correct] == pytest.approx(shares, abs=0.006)
    assert report.readouts.own.share == pytest.approx(report.headline_acc)
    whole = [(torch.cat([a for a, _ in batches]), torch.cat([b for _, b in batches]))]
    torch.manual_seed(3)
    again = walkback.diagnose(Net(), whole, blocks="blocks.*", readouts=True)
    assert again.readouts == report.readouts
    assert type(report).from_dict(report.to_dict()).reading("r") == report.reading("r")


def test_without_the_first_site_there_is_no_gain_over_it():
    torch.manual_seed(3)
    some = walkback.diagnose(Net(), batches_of_a_product(), blocks="blocks.*", readouts=True, sites=[1])
    assert not {"r", "w", "q"} & {reading.letter for reading in some.readings}


def test_floors_decide_where_they_are_given():
    limits = DiagnosticThresholds(readout_gain_floor=0.5, stem_gain_floor=0.0, head_gain_floor=-100)
    assert diagnosed(useful=True, thresholds=limits).reading("r").state is State.PASS
    assert diagnosed(useful=False, thresholds=limits).reading("r").state is State.FIRE
    assert diagnosed(useful=True, thresholds=limits).reading("q").state is State.PASS


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([(torch.randn(30, 6), torch.arange(30) % 2)], "too few"),
        ([(torch.randn(200, 6), torch.zeros(200, dtype=torch.long))], "one class"),
    ],
)
def test_what_cannot_be_read_out_is_said(batches, words):
    report = walkback.diagnose(Net(), batches, blocks="blocks.*", readouts=True)
    assert words in report.no_readouts
    assert "r" not in [reading.letter for reading in report.readings]
    assert Measurements(no_readouts="x").readouts is None


def test_intervals_cover_what_readouts_of_other_samples_reach():
    """The accuracy of readouts that are fitted on as many other samples, in 240 draws of 200: 95 % less four
    standard errors."""
    random = np.random.default_rng(8)

    def drawn(samples):
        labels = random.integers(0, 3, samples)
        x = random.normal(size=(samples, 12))
        x[:, :3] += np.eye(3)[labels]
        return x, labels

    x, y = drawn(20_000)
    truth = np.mean([
        (ridge_scores(a, np.eye(3)[b], x).argmax(axis=1) == y).mean() for a, b in (drawn(160) for _ in range(60))
    ])  # fmt: skip
    shares = [answered_rightly(*drawn(200), 3).mean() for _ in range(240)]
    bounds = [wilson(share, 0.8 * 200) for share in shares]
    covered = np.mean([low <= truth <= high for low, high in bounds])
    assert covered > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 240)


@pytest.mark.parametrize("shape", [(7, 5), (7, 3, 5), (7, 4, 6, 6), (7, 2, 3, 4, 5)])
def test_the_features_of_a_site_are_counted_as_they_are_read(shape):
    assert feature_count(shape) == features(torch.randn(shape)).shape[1]
    if len(shape) == 4:
        channels_last = (shape[0], shape[2], shape[3], shape[1])
        assert feature_count(channels_last, channels_first=False) == feature_count(shape)


def test_every_network_says_how_wide_its_sites_are_and_a_readout_the_same():
    report = diagnosed(useful=True)
    assert report.site_features == report.readouts.widths


def test_an_interval_counts_the_samples_that_a_readout_was_fitted_on():
    """The share of them widens it by what one over its root does, on the scale on which such intervals are made."""
    random = np.random.default_rng(3)
    one, other = (Answered.of(random.random(1000) < share) for share in (0.9, 0.7))
    pairs = Pairs.of(one, other)

    def width(interval):
        return math.log1p(-interval.low) - math.log1p(-interval.high)

    for folds in (2, 5):
        readouts = Readouts(correct=(other, other), own=one, folds=folds, widths=(8, 8), most_width=512)
        interval = gain_interval(pairs, readouts)
        assert width(interval) / width(pairs.error_reduction_interval(0.95)) == pytest.approx(
            (1 - 1 / folds) ** -0.5, rel=0.02
        )
        assert f"{1 - 1 / folds:.0%}" in interval.how
