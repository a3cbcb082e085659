"""Depth gain: errors removed, in pairs over samples; its intervals cover, and McNemar's test is what it says."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from small_models import ResMLP, labelled

import walkback
from walkback import DiagnosticThresholds, Measurements, Score, State
from walkback.errors import BaselineError, InputError
from walkback.protocol.judge import read as read_all
from walkback.protocol.pairing import Answered, Pairs, unpaired_reduction
from walkback.protocol.scores import FrozenBaseline
from walkback.protocol.uncertainty import geometric_interval, mean_interval

LEVEL = 0.95


def answers(pairs):
    """Two lists of booleans with these counts, shuffled together."""
    rows = [(True, True)] * pairs[0] + [(True, False)] * pairs[1] + [(False, True)] * pairs[2]
    rows += [(False, False)] * pairs[3]
    order = np.random.default_rng(3).permutation(len(rows))
    return [rows[i][0] for i in order], [rows[i][1] for i in order]


def reading(pairs, **thresholds):
    mine, others = answers(pairs)
    measured = Measurements(
        headline_acc=float(np.mean(mine)), headline_samples=len(mine), headline_correct=mine,
        frozen_baseline_acc=float(np.mean(others)), frozen_baseline_samples=len(others),
        frozen_baseline_correct=others,
    )  # fmt: skip
    return next(one for one in read_all(measured, DiagnosticThresholds(**thresholds)) if one.letter == "h")


def mcnemar_slow(first, second):
    """The exact two-sided p, in fractions: twice the smaller tail of Bin(n, ½), at most 1."""
    n, fewer = first + second, min(first, second)
    return float(min(Fraction(1), 2 * sum(Fraction(comb(n, k), 2**n) for k in range(fewer + 1))))


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (5, 0), (6, 0), (3, 9), (40, 25), (200, 261)])
def test_mcnemar_is_the_exact_binomial_test(first, second):
    assert Pairs(10, first, second, 5).p_value == pytest.approx(mcnemar_slow(first, second), rel=1e-12)


def test_bits_hold_every_answer_in_its_order():
    mine = [True, False, False, True, True, False, True, False, True, True, False]
    assert Answered.model_validate(mine).right.tolist() == mine
    assert Score(value=6 / 11, correct=np.array(mine)).correct == Answered.model_validate(mine)
    again = Score.model_validate(Score(value=6 / 11, samples=11, correct=mine).to_dict())
    assert again.correct.right.tolist() == mine


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"value": 0.5, "correct": [True, True]}, "same share"),
        ({"value": 1.0, "correct": [1, 1]}, "True or False"),
        ({"value": 1.0, "samples": 3, "correct": [True, True]}, "one for each"),
        ({"value": 1.0, "correct": {"samples": 20, "bits": "AA=="}}, "a bit for each"),
        ({"value": 1.0, "correct": {"samples": 20, "bits": "?"}}, "base64"),
        ({"value": 3.0, "unit": "ppl", "higher_is_better": False, "correct": [True]}, "for accuracies"),
    ],
)
def test_answers_that_are_not_those_of_the_score_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        Score(**given)


def test_the_gain_is_the_share_of_errors_removed():
    read = reading((700, 120, 60, 120))
    assert read.value == pytest.approx(1 - 180 / 240)
    assert read.state is State.REPORTED
    assert read.case == "gains"
    assert "120 are right only with trained blocks and 60 only without" in read.sentence
    assert read.interval.low < 0.25 < read.interval.high
    assert "seeds" in read.interval.how


@pytest.mark.parametrize(
    ("pairs", "case"),
    [
        ((700, 60, 120, 120), "harmful"),
        ((700, 62, 60, 178), "no gain shown"),
        ((996, 2, 1, 1), "not decidable"),
        ((1000, 0, 0, 0), "not decidable"),
        ((900, 0, 100, 0), "harmful"),
        ((600, 300, 20, 80), "gains"),
        ((90, 30, 30, 850), "no gain shown"),
    ],
)
def test_each_outcome_has_its_case_and_a_sentence(pairs, case):
    read = reading(pairs)
    assert read.case == case
    assert read.sentence.lower().startswith(case)


def test_a_floor_decides_and_a_ceiling_is_not_judged():
    assert reading((700, 62, 60, 178), depth_gain_floor=0.05).state is State.FIRE
    assert reading((700, 62, 60, 178), depth_gain_floor=0.05).fragile
    assert reading((600, 300, 20, 80), depth_gain_floor=0.05).state is State.PASS
    assert reading((996, 2, 1, 1), depth_gain_floor=0.9).state is State.UNDECIDED
    assert reading((700, 60, 120, 120), depth_gain_floor=0.05).case == "harmful"


def test_the_better_of_two_baselines_counts():
    mine, others = answers((700, 120, 60, 120))
    better, worse = sum(others) / 1000, 0.4
    measured = Measurements(
        headline_acc=0.82, headline_samples=1000, headline_correct=mine, frozen_baseline_acc=worse,
        frozen_baseline_samples=1000, random_baseline_acc=better, random_baseline_samples=1000,
        random_baseline_correct=others,
    )  # fmt: skip
    read = walkback.judge(measured).reading("h")
    assert read.value == pytest.approx(0.25)
    assert "norms of the trained ones" in read.sentence
    assert "+70.0 %" in read.sentence


def test_scores_apart_have_a_wider_interval_and_other_samples_are_not_paired():
    mine, others = answers((700, 120, 60, 120))
    apart = unpaired_reduction(0.82, 1000, 0.76, 1000, LEVEL)
    paired = Pairs(700, 120, 60, 120).error_reduction_interval(LEVEL)
    assert apart.low < paired.low < 0.25 < paired.high < apart.high
    one, two = (Answered(samples=1000, bits=Answered.model_validate(a).bits, labels=name)
                for a, name in ((mine, "a"), (others, "b")))  # fmt: skip
    assert "shuffles" in one.why_not_paired(two)
    assert "1,000 samples and the other on 3" in one.why_not_paired(Answered.model_validate([True, False, True]))


def test_the_margin_is_judged_in_pairs_where_both_are_known():
    mine, others = answers((700, 120, 60, 120))
    fields = {"headline_acc": 0.82, "headline_samples": 1000, "frozen_baseline_acc": 0.76,
              "frozen_baseline_samples": 1000}  # fmt: skip
    apart = walkback.judge(Measurements(**fields)).reading("d").interval
    pairs = Measurements(**fields, headline_correct=mine, frozen_baseline_correct=others)
    paired = walkback.judge(pairs).reading("d").interval
    assert "paired" in paired.how
    assert "paired" not in apart.how
    assert apart.low < paired.low < 6 < paired.high < apart.high
    # Of a headline on other samples the pairs say nothing.
    other = walkback.judge(pairs.model_copy(update={"headline_acc": 0.9})).reading("d").interval
    assert "paired" not in other.how


TABLES = [
    (100, (0.60, 0.10, 0.10, 0.20)),
    (200, (0.85, 0.06, 0.04, 0.05)),
    (1000, (0.90, 0.03, 0.01, 0.06)),
    (1280, (0.40, 0.20, 0.10, 0.30)),
    (300, (0.10, 0.02, 0.02, 0.86)),
    (500, (0.97, 0.01, 0.01, 0.01)),
]


@pytest.mark.parametrize(("samples", "shares"), TABLES)
def test_intervals_cover_the_truth_as_often_as_they_say(samples, shares):
    """Within what 1500 draws can tell: 95 % less four standard errors."""
    draws = np.random.default_rng(14).multinomial(samples, shares, size=1500)
    least = LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / len(draws))
    truth = shares[1] - shares[2], (shares[1] - shares[2]) / (shares[1] + shares[3])
    tables = [Pairs(*map(int, draw)) for draw in draws]
    differences = np.mean([pairs.difference_interval(LEVEL).contains(100 * truth[0]) for pairs in tables])
    reductions = [pairs.error_reduction_interval(LEVEL) for pairs in tables]
    covered = np.mean([interval is None or interval.contains(truth[1]) for interval in reductions])
    assert least < differences
    assert least < covered
    if shares[1] == shares[2]:
        assert np.mean([pairs.p_value < 0.05 for pairs in tables]) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / len(draws))


@pytest.mark.parametrize(("samples", "shares"), TABLES)
def test_the_interval_of_two_that_were_scored_apart_covers(samples, shares):
    random = np.random.default_rng(15)
    one, other = shares[0] + shares[1], shares[0] + shares[2]
    truth = 1 - (1 - one) / (1 - other)
    found = [
        unpaired_reduction(a / samples, samples, b / samples, samples, LEVEL)
        for a, b in zip(random.binomial(samples, one, 1500), random.binomial(samples, other, 1500), strict=True)
    ]
    covered = np.mean([interval is None or interval.contains(truth) for interval in found])
    assert covered > LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / 1500)


def right_slow(model, batches):
    with torch.no_grad():
        return [bool(row.argmax() == label) for x, y in batches for row, label in zip(model(x), y, strict=True)]


def trained_head(model):
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for inputs, labels in labelled(64, 64):
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_diagnose_pairs_the_network_with_its_baseline_however_samples_are_batched():
    torch.manual_seed(5)
    model, batches = ResMLP(), labelled(70, 30, 60)
    kept = []

    def train(network):
        trained_head(network)
        kept.append(network)

    baseline = walkback.frozen_baseline(train, ResMLP, batches, seed=2)
    assert baseline.correct.right.tolist() == right_slow(kept[0], batches)
    assert FrozenBaseline.model_validate(baseline.to_dict()) == baseline
    report = walkback.diagnose(model, batches, frozen_baseline_acc=baseline)
    mine, others = right_slow(model, batches), right_slow(kept[0], batches)
    assert report.headline_correct.right.tolist() == mine
    errors = sum(not right for right in mine), sum(not right for right in others)
    assert report.reading("h").value == pytest.approx(1 - errors[0] / errors[1])
    whole = [(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))]
    assert walkback.diagnose(model, whole, frozen_baseline_acc=baseline).reading("h") == report.reading("h")
    turned = [(x.flip(0), y.flip(0)) for x, y in whole]
    assert "h" not in [r.letter for r in walkback.diagnose(model, turned, frozen_baseline_acc=baseline).readings]


def test_blocks_at_the_trained_norms_have_them_and_are_other_blocks():
    torch.manual_seed(7)
    trained, kept = ResMLP(), []
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(3).add_(0.01 * torch.randn_like(parameter))

    def train(network):
        kept.append({name: p.detach().clone() for name, p in network.named_parameters()})
        trained_head(network)

    arguments = {"seed": 2, "blocks_at": "trained norms"}
    baseline = walkback.frozen_baseline(train, ResMLP, labelled(64), trained=trained, **arguments)
    walkback.frozen_baseline(train, ResMLP, labelled(64), trained=trained.state_dict(), **arguments)
    assert baseline.blocks_at == "trained norms"
    for name, parameter in trained.blocks.named_parameters(prefix="blocks"):
        assert torch.linalg.vector_norm(kept[0][name]).item() == pytest.approx(parameter.norm().item(), rel=1e-5)
        assert not torch.equal(kept[0][name], parameter)
        assert torch.equal(kept[0][name], kept[1][name])
    report = walkback.diagnose(trained, labelled(64), random_baseline=baseline)
    assert "norms of the trained ones" in report.reading("h").sentence


def test_what_cannot_be_redrawn_is_told():
    def make(**changes):
        return walkback.frozen_baseline(trained_head, ResMLP, labelled(64), **changes)

    with pytest.raises(InputError, match="trained norms"):
        make(blocks_at="norms")
    with pytest.raises(InputError, match="state_dict"):
        make(blocks_at="trained norms")
    with pytest.raises(InputError, match="blocks at init need none"):
        make(trained=ResMLP())
    with pytest.raises(BaselineError, match="no such parameter"):
        make(blocks_at="trained norms", trained={})


def test_three_seeds_have_an_outcome_by_the_interval_of_their_mean():
    def reports(*tables):
        for seed, pairs in enumerate(tables):
            mine, others = answers(pairs)
            measured = Measurements(
                headline_acc=float(np.mean(mine)), headline_correct=mine, headline_samples=1000,
                frozen_baseline_acc=float(np.mean(others)), frozen_baseline_correct=others,
                frozen_baseline_samples=1000,
            )  # fmt: skip
            yield walkback.judge(measured, seed=seed)

    gains = [(700, 120, 60, 120), (700, 130, 60, 110), (700, 115, 65, 120)]
    mixed = [(700, 60, 90, 150), (700, 100, 60, 140), (700, 75, 75, 150)]
    assert walkback.combine(list(reports(*gains))).diagnostic("h").case == "gains"
    # Each of the first two is significant by itself, the one against the other: over seeds nothing is shown.
    assert [r.reading("h").case for r in reports(*mixed)][:2] == ["harmful", "gains"]
    assert walkback.combine(list(reports(*mixed))).diagnostic("h").case == "no gain shown"
    assert walkback.combine(list(reports(*gains[:2]))).diagnostic("h").case == ""


def test_growth_over_seeds_is_read_by_the_interval_of_its_geometric_mean():
    def reports(*growths):
        measured = [Measurements(residual_norms=[1.0, g], bp_grad_norms=[1e-3, 1e-3]) for g in growths]
        return [walkback.judge(each, seed=seed) for seed, each in enumerate(measured)]

    logs = np.log([100.0, 300.0, 900.0])
    reach = 4.302652729911275 * logs.std(ddof=1) / math.sqrt(3)  # t with two degrees of freedom
    found = walkback.combine(reports(100.0, 300.0, 900.0)).diagnostic("a")
    assert found.geometric.low == pytest.approx(math.exp(logs.mean() - reach))
    assert found.geometric.high == pytest.approx(math.exp(logs.mean() + reach))
    assert found.by_interval is State.UNDECIDED  # all three fire, and three seeds do not say that a fourth would
    assert walkback.combine(reports(290.0, 300.0, 310.0)).diagnostic("a").by_interval is State.FIRE
    assert walkback.combine(reports(1.1, 1.2, 1.3)).diagnostic("a").by_interval is State.PASS
    assert walkback.combine(reports(290.0, 300.0)).diagnostic("a").by_interval is None


def test_the_geometric_interval_covers_where_that_of_the_plain_mean_does_not():
    random = np.random.default_rng(21)
    draws = np.exp(2 * random.normal(size=(1500, 5)))
    found = np.mean([geometric_interval(row).contains(1.0) for row in draws])
    plain = np.mean([mean_interval(row).contains(math.exp(2)) for row in draws])
    assert abs(found - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 1500)
    assert plain < 0.8


def test_a_perfect_baseline_that_was_scored_apart_is_no_ceiling():
    def gain(headline, frozen):
        fields = {"headline_acc": headline, "headline_samples": 1000, "frozen_baseline_acc": frozen,
                  "frozen_baseline_samples": 1000}  # fmt: skip
        return walkback.judge(Measurements(**fields), panel="calibrated").reading("h")

    assert gain(0.5, 0.999).case == gain(0.5, 1.0).case == "harmful"
    assert "makes no error, and with trained ones some" in gain(0.5, 1.0).sentence
    assert gain(0.999, 1.0).case == "not decidable"
    assert "loss without bounds" in gain(0.999, 1.0).sentence
    assert "ceiling" in gain(1.0, 1.0).sentence


@pytest.mark.parametrize("name", ["frozen_baseline", "random_baseline"])
def test_answers_that_are_not_those_of_the_baseline_are_refused(name):
    mine, others = answers((0, 500, 100, 400))
    scores = {"headline_acc": 0.5, "headline_samples": 1000, "headline_correct": mine}
    with pytest.raises(InputError, match=f"{name}_correct holds 0.1; expected the same share"):
        Measurements(**scores, **{f"{name}_acc": 0.9, f"{name}_samples": 1000, f"{name}_correct": others})
    fields = {"headline_acc": 0.5, "headline_samples": 1000, "frozen_baseline_acc": 0.1,
              "frozen_baseline_samples": 1000}  # fmt: skip
    fields["frozen_baseline_acc"] = 0.1004  # rounded, as on a page: the list is not the one behind it
    known = Measurements(**fields, headline_correct=mine, frozen_baseline_correct=others)
    apart = walkback.judge(known).reading("d")
    assert "paired" not in apart.interval.how
    assert apart.interval.contains(apart.value)


def test_reports_say_why_two_lists_are_not_paired_and_what_a_pairing_rests_on():
    mine, others = answers((700, 120, 60, 120))
    fields = {"headline_acc": 0.82, "headline_samples": 1000, "frozen_baseline_acc": 0.76,
              "frozen_baseline_samples": 1000}  # fmt: skip

    def told(one, two, **changed):
        report = walkback.judge(Measurements(**fields | changed, headline_correct=one, frozen_baseline_correct=two))
        return " ".join(report.to_text().split())

    def labelled_by(name, right):
        return Answered(samples=1000, bits=Answered.model_validate(right).bits, labels=name)

    assert "taken on trust" in told(mine, others)
    assert "taken on trust" not in told(labelled_by("a", mine), labelled_by("a", others))
    assert "not counted in pairs: the labels of the samples differ" in told(
        labelled_by("a", mine), labelled_by("b", others)
    )
    fewer = answers((38, 0, 0, 12))[0]
    short = told(mine, fewer, frozen_baseline_samples=50)
    assert "not counted in pairs: one was scored on 1,000 samples and the other on 50" in short
