"""The scores that people hand in: in any unit, contradicted by the batches, of other blocks or of another network."""

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from small_models import ResMLP, TokenNet, labelled
from torch import nn

import walkback
from walkback.errors import BaselineError, InputError
from walkback.present.numbers import reading_value
from walkback.protocol.headline import contradiction
from walkback.protocol.records import State

BATCHES = labelled(64, 64, 64)


def perplexity(value, **settings):
    return walkback.Score(value=value, unit="perplexity", higher_is_better=False, **settings)


def right_on_all():
    """Batches whose labels are what the network says: it scores 100 % on them."""
    torch.manual_seed(0)
    model = ResMLP()
    return model, [(x, model(x).argmax(dim=1)) for x, _ in BATCHES]


def relabelled(model, wrong):
    """The same with that many wrong labels."""
    x = torch.cat([x for x, _ in BATCHES])
    y = model(x).argmax(dim=1)
    y[:wrong] = (y[:wrong] + 1) % 3
    return [(x, y)]


# What is no score


@pytest.mark.parametrize("name", ["headline_acc", "frozen_baseline_acc"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, r"is True; expected an accuracy in \[0, 1\], such as 0.912"),
        ("0.9", r"is '0.9'; expected an accuracy in \[0, 1\]"),
        (np.bool_(True), r"is (np\.)?True_?; expected an accuracy"),
        ([0.9], r"is \[0.9\]; expected an accuracy"),
        (91.2, r"is 91.2 and looks like per cent; expected a score in \[0, 1\]: divide percentages by 100"),
        (-0.1, r"is -0.1; expected a score in \[0, 1\]"),
        (1e6, r"is 1000000.0; expected a score in \[0, 1\]"),
    ],
)
def test_what_is_no_accuracy_is_refused_before_anything_is_measured(name, value, message):
    def batches():
        raise AssertionError("nobody asked for a batch")
        yield

    with pytest.raises(InputError, match=f"^{name} {message}"):
        walkback.diagnose(ResMLP(), batches(), **{name: value})


@pytest.mark.parametrize("kind", [float, np.float32, np.float64, np.array, torch.tensor])
def test_numbers_of_other_libraries_are_numbers(kind):
    report = walkback.diagnose(ResMLP(), BATCHES, headline_acc=kind(0.5), frozen_baseline_acc=kind(0.25))
    assert (report.headline_acc, report.frozen_baseline_acc) == (0.5, 0.25)


@pytest.mark.parametrize("value", [True, "0.9"])
@pytest.mark.parametrize("name", ["headline_acc", "frozen_baseline_acc"])
def test_nor_are_they_taken_into_records(name, value):
    with pytest.raises(InputError, match=rf"{name} is {value!r}; expected a number"):
        walkback.Measurements(residual_norms=[1.0, 1.0], **{name: value})
    with pytest.raises(InputError, match=r"value is .*; expected a number"):
        walkback.Score(value=value)
    with pytest.raises(InputError, match=r"accuracy is .*; expected a number"):
        walkback.FrozenBaseline(accuracy=value)


def test_nan_stays_in_a_record_and_comes_back(tmp_path):
    record = walkback.FrozenBaseline(accuracy=math.nan)
    assert math.isnan(walkback.FrozenBaseline.load(record.save(tmp_path / "b.json")).accuracy)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"value": 24.1, "unit": "perplexity"},
            "in perplexity does not say which way is better",
        ),
        ({"value": 24.1}, r"value is 24.1 and looks like per cent.* or name another unit="),
        ({"value": 0.2, "higher_is_better": False}, "of accuracy more is better; name another unit="),
        ({"value": 0.2, "samples": 9, "answers": 8}, "8 answers of 9 samples"),
        ({"value": 0.2, "unit": ""}, "unit"),
    ],
)
def test_a_score_that_makes_no_sense_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        walkback.Score(**fields)


def test_a_baseline_has_one_score():
    for fields in ({}, {"accuracy": 0.5, "score": perplexity(3.0)}):
        with pytest.raises(InputError, match="one of the two"):
            walkback.FrozenBaseline(**fields)
    with pytest.raises(InputError, match="give it as accuracy="):
        walkback.FrozenBaseline(score=walkback.Score(value=0.5))


# A headline that the batches contradict


def exact_p(successes, count, chance):
    """Two-sided, by the sum of all outcomes that are no more likely than this one, in whole numbers."""
    p = Fraction(chance)
    mass = [comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
    return float(sum(m for m in mass if m <= mass[successes]))


@pytest.mark.parametrize("headline", [0.0, 0.25, 0.5, 0.625, 1.0])
def test_a_headline_is_remarked_on_where_the_exact_binomial_test_says_so(headline):
    count, remarked = 40, []
    for right in range(count + 1):
        said = contradiction(headline, {"headline_acc": right / count, "headline_samples": count})
        assert bool(said) == (exact_p(right, count, headline) < 1e-3), right
        remarked.append(bool(said))
    assert any(remarked)
    assert not all(remarked)


def test_the_remark_gives_both_figures_and_p():
    model, _ = right_on_all()
    report = walkback.diagnose(model, relabelled(model, 8), headline_acc=0.5)
    (remark,) = report.warnings
    assert "the headline accuracy is 50.00 %, and on the batches the network has 95.83 % of 192 samples" in remark
    assert f"p = {exact_p(184, 192, 0.5):.1g}" in remark
    assert remark in " ".join(report.to_text().replace("warning: ", "").split())
    assert report.headline_acc == 0.5


def test_a_headline_that_the_batches_bear_out_has_none():
    model, _ = right_on_all()
    assert walkback.diagnose(model, relabelled(model, 8), headline_acc=0.95).warnings == ()
    assert walkback.diagnose(model, relabelled(model, 8)).warnings == ()
    nan = walkback.Score(value=math.nan)
    assert walkback.diagnose(model, relabelled(model, 8), headline_acc=nan).warnings == ()


def token_batches(model, right_tokens):
    """16 sequences of 5 tokens, the first ones right, one token of each marked as not to be scored."""
    x = torch.randn(16, 5, 12, generator=torch.Generator().manual_seed(0))
    y = model(x).argmax(dim=-1)
    y.view(-1)[right_tokens:] = (y.view(-1)[right_tokens:] + 1) % 3
    y[:, 4] = -100
    return [(x[:9], y[:9]), (x[9:], y[9:])]


def test_the_tokens_of_a_sequence_are_several_answers_and_one_sample():
    torch.manual_seed(0)
    model = TokenNet(reads="tokens")
    batches = token_batches(model, right_tokens=60)
    report = walkback.diagnose(model, batches, frozen_baseline_acc=walkback.Score(value=0.5, samples=16, answers=64))
    assert (report.headline_samples, report.headline_answers) == (16, 64)
    assert report.headline_acc == 48 / 64  # of 60 right tokens 12 are not scored
    interval, alone = (
        report.reading("d").interval,
        walkback.judge(
            walkback.Measurements(
                headline_acc=0.75, headline_samples=16, frozen_baseline_acc=0.5, frozen_baseline_samples=16
            )
        )
        .reading("d")
        .interval,
    )
    assert (interval.low, interval.high) == (alone.low, alone.high)
    assert "each with all its answers counted as one" in interval.how
    assert "answers" not in alone.how
    as_if = (
        walkback.judge(
            walkback.Measurements(
                headline_acc=0.75, headline_samples=64, frozen_baseline_acc=0.5, frozen_baseline_samples=64
            )
        )
        .reading("d")
        .interval
    )
    assert interval.high - interval.low > 1.8 * (as_if.high - as_if.low)
    assert "75.00 % of 64 tokens in 16 sequences" in report.to_text()


def test_a_headline_is_held_against_sequences_not_tokens():
    torch.manual_seed(0)
    model = TokenNet(reads="tokens")
    batches = token_batches(model, right_tokens=60)
    assert exact_p(48, 64, 0.5) < 1e-3 < exact_p(12, 16, 0.5)
    assert walkback.diagnose(model, batches, headline_acc=0.5).warnings == ()


# (d) in other units


def judged(headline, baseline, limit=None, **fields):
    measured = walkback.Measurements(
        residual_norms=[1.0, 1.0], headline_score=headline, frozen_baseline_score=baseline, **fields
    )
    return walkback.judge(measured, walkback.DiagnosticThresholds(frozen_margin=limit))


@pytest.mark.parametrize(
    ("headline", "baseline", "higher", "gain"),
    [(20.0, 30.0, False, 10.0), (30.0, 20.0, False, -10.0), (0.7, 0.5, True, 0.2), (0.5, 0.7, True, -0.2)],
)
def test_the_margin_is_what_training_the_blocks_gains_in_the_unit(headline, baseline, higher, gain):
    one, other = (walkback.Score(value=v, unit="nats", higher_is_better=higher) for v in (headline, baseline))
    for limit in (-20.0, gain - 0.1, gain + 0.1, 20.0):
        reading = judged(one, other, limit).reading("d")
        assert reading.value == pytest.approx(gain)
        assert (reading.unit, reading.threshold) == ("nats", limit)
        assert reading.state is (State.FIRE if gain < limit else State.PASS)
        assert ("gains" if gain > 0 else "loses") + f" {abs(gain):.3g}"[:6] in reading.sentence
        assert "nats" in reading.sentence


def test_without_a_threshold_it_is_undecided_and_asks_for_one():
    report = judged(perplexity(20.0), perplexity(30.0))
    reading = report.reading("d")
    assert reading_value(reading) == "+10.0 perplexity"
    assert reading.state is State.UNDECIDED
    assert reading.value == 10.0
    assert "Training the blocks gains 10.0 perplexity against leaving them at random" in reading.sentence
    assert "DiagnosticThresholds(frozen_margin=…)" in reading.sentence
    assert not report.complete
    for page in (report.to_text(), report.to_markdown(), report.to_latex()):
        assert "10.0 perplexity" in page
        assert "no threshold" in page


def test_units_that_do_not_fit_are_not_measured():
    other = walkback.Score(value=0.3, unit="MSE", higher_is_better=False)
    reading = judged(other, perplexity(30.0), 1.0).reading("d")
    assert reading.state is State.NOT_MEASURED
    assert "is in perplexity, and the headline is in MSE" in reading.sentence
    reading = judged(None, perplexity(30.0), 1.0, headline_acc=0.5).reading("d")
    assert "no headline in that unit was given; pass score=walkback.Score(value=…, unit='perplex" in reading.sentence


@pytest.mark.parametrize("broken", ["headline", "baseline"])
def test_a_score_that_is_nan_or_infinite_is_never_trustworthy(broken):
    for value in (math.nan, math.inf):
        scores = {"headline": perplexity(3.0), "baseline": perplexity(4.0)} | {broken: perplexity(value)}
        for limit in (None, 0.5):
            assert "non-finite" in judged(**scores, limit=limit).verdict


def test_an_accuracy_is_judged_as_it_was():
    plain = {"residual_norms": [1.0, 1.0], "headline_acc": 0.5, "frozen_baseline_acc": 0.4}
    before = walkback.judge(walkback.Measurements(**plain))
    beside = walkback.judge(walkback.Measurements(**plain, headline_score=perplexity(3.0)))
    assert before.reading("d") == beside.reading("d")
    assert before.reading("d").unit == "pp"


def test_diagnose_takes_a_score_in_another_unit():
    limits = walkback.DiagnosticThresholds(frozen_margin=2.0)
    report = walkback.diagnose(
        ResMLP(), BATCHES, score=perplexity(20.0, samples=192), frozen_baseline_acc=perplexity(30.0), thresholds=limits
    )
    assert report.reading("d").state is State.PASS
    assert report.headline_acc is not None  # counted on the batches, beside it
    assert walkback.DiagnosticReport.from_dict(report.to_dict()) == report
    text = " ".join(report.to_text().split())
    assert "score 20.0 perplexity, less is better, on 192 samples" in text
    assert "frozen baseline 30.0 perplexity, less is better" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"headline_acc": perplexity(3.0)}, "headline_acc is in perplexity; pass it as score="),
        ({"score": 3.0}, r"score= is 3.0; expected walkback.Score\(value=…, unit='…'"),
        ({"score": walkback.Score(value=0.5)}, "score= is an accuracy; pass it as headline_acc="),
        (
            {"score": perplexity(3.0), "frozen_baseline_acc": 0.3},
            r"score= is in perplexity and frozen_baseline_acc is an accuracy.*unit='perplexity'",
        ),
        (
            {
                "score": perplexity(3.0),
                "frozen_baseline_acc": walkback.Score(value=1.0, unit="MSE", higher_is_better=False),
            },
            r"score= is in perplexity \(less is better\) and the frozen baseline in MSE \(less is better\)",
        ),
    ],
)
def test_scores_in_the_wrong_place_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        walkback.diagnose(ResMLP(), BATCHES, **arguments)


def test_an_accuracy_that_is_given_beside_a_score_is_compared_with_that_of_the_baseline():
    report = walkback.diagnose(
        ResMLP(), BATCHES, headline_acc=0.5, score=perplexity(20.0), frozen_baseline_acc=0.3, seed=0
    )
    assert report.reading("d").value == pytest.approx(20.0)
    score = next(line for line in str(report).splitlines() if line.startswith("score"))
    assert "20.0 perplexity" in score
    assert "50.00 %" in score


def test_seeds_in_several_units_are_not_averaged():
    reports = [
        judged(perplexity(20.0), perplexity(30.0)),
        judged(None, None, headline_acc=0.5, frozen_baseline_acc=0.4),
    ]
    with pytest.raises(InputError, match=r"\(d\) in several units \(perplexity, pp\)"):
        walkback.combine(reports)
    summary = walkback.combine([reports[0], judged(perplexity(21.0), perplexity(30.0))])
    assert summary.diagnostic("d").unit == "perplexity"


# A baseline of other blocks, or of another network


def scored(model):
    return walkback.Score(value=0.25, samples=100)


@pytest.fixture(scope="module")
def matched():
    return walkback.frozen_baseline(scored, ResMLP, BATCHES)


def test_a_matched_baseline_is_taken_and_the_report_says_what_was_frozen(matched, tmp_path):
    report = walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=matched)
    assert report.frozen == matched.frozen
    words = "blocks.0, blocks.1, blocks.2: 888 of 1,035 parameters (85.8 %), in 18 tensors"
    numbers = sum(p.numel() for p in ResMLP().blocks.parameters()), sum(p.numel() for p in ResMLP().parameters())
    assert numbers == (888, 1035)
    page = report.to_html(tmp_path / "r.html").read_text()
    for rendering in (report.to_text(), report.to_markdown(), report.to_latex(), page):
        assert words in " ".join(rendering.replace("\\%", "%").replace("~", " ").split())


def test_so_does_the_template(matched):
    from walkback.present.form import latex, markdown
    from walkback.present.template import form_of

    form = form_of(walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=matched))
    for page in (markdown(form), latex(form)):
        assert "frozen blocks" in page
        assert "in 18 tensors" in page
    assert "- **frozen blocks**: TO FILL IN: which ones" in markdown(form_of(None))
    without = markdown(form_of(walkback.diagnose(ResMLP(), BATCHES)))
    assert "**matched frozen baseline**: TO FILL IN" in without
    assert "**frozen blocks**" not in without


def test_of_a_plain_number_the_report_says_that_it_is_not_known():
    report = walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=0.25)
    assert report.frozen is None
    for page in (report.to_text(), report.to_markdown(), report.to_latex()):
        assert "not known: the baseline came as a number alone" in " ".join(page.split())


def test_a_baseline_of_other_blocks_is_refused(matched):
    model = ResMLP()
    message = (
        r"froze blocks blocks.0, blocks.1, blocks.2, but blocks blocks.0, blocks.1 are diagnosed: "
        r"blocks.2.norm.weight and 5 others were frozen too and should have been trained\. "
        r"Train it again with blocks='blocks.0,blocks.1'"
    )
    with pytest.raises(BaselineError, match=message):
        walkback.diagnose(model, BATCHES, frozen_baseline_acc=matched, blocks=["blocks.0", "blocks.1"])
    fewer = walkback.frozen_baseline(scored, ResMLP, blocks=["blocks.0"])
    with pytest.raises(BaselineError, match=r"norm.weight and 11 others were trained and should have been frozen"):
        walkback.diagnose(model, BATCHES, frozen_baseline_acc=fewer)
    with pytest.raises(BaselineError, match=r"froze block blocks\.0, but"):
        walkback.Monitor(model, BATCHES, frozen_baseline_acc=fewer)
    as_a_number = walkback.diagnose(model, BATCHES, frozen_baseline_acc=fewer.accuracy)
    assert as_a_number.frozen_baseline_acc == 0.25


def test_blocks_by_other_names_that_hold_the_same_parameters_are_the_same(matched):
    inner = ["blocks.0.norm", "blocks.0.up", "blocks.0.down", "blocks.1", "blocks.2"]
    record = walkback.frozen_baseline(scored, ResMLP, blocks=inner)
    report = walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=record)
    assert report.frozen.parameters == matched.frozen_parameters


def test_a_baseline_of_another_network_is_refused(matched):
    with pytest.raises(BaselineError, match=r"another network than this ResMLP: the baseline has blocks.2.norm.weight"):
        walkback.diagnose(ResMLP(depth=2), BATCHES, frozen_baseline_acc=matched)
    with pytest.raises(BaselineError, match=r"this network has blocks.3.norm.weight, and the baseline has not"):
        walkback.diagnose(ResMLP(depth=4), BATCHES, frozen_baseline_acc=matched)
    wider = ResMLP()
    wider.head = nn.Linear(8, 5)
    with pytest.raises(BaselineError, match=r"head.weight has the shape \(3, 8\) in the baseline and \(5, 8\) in this"):
        walkback.diagnose(wider, BATCHES, frozen_baseline_acc=matched)


def test_an_older_record_that_names_blocks_alone_is_held_to_them():
    old = walkback.FrozenBaseline(accuracy=0.25, frozen_blocks=("blocks.0", "blocks.1", "blocks.2"))
    assert walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=old).frozen.blocks == old.frozen_blocks
    other = walkback.FrozenBaseline(accuracy=0.25, frozen_blocks=("blocks.0",))
    with pytest.raises(BaselineError, match=r"froze block blocks\.0, but"):
        walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=other)


def test_a_printed_baseline_is_its_score_and_what_it_froze(matched):
    right = [True, False, False, False] * 320
    record = walkback.FrozenBaseline(accuracy=0.25, samples=1280, correct=right, frozen_blocks=("1", "2", "3"))
    assert str(record) == "25.0 % on 1,280 samples, blocks 1, 2, 3 frozen"
    assert "bits" not in str(matched)
    assert str(walkback.FrozenBaseline(accuracy=0.5)) == "50.0 %"
    perplexity = walkback.Score(value=24.1, unit="perplexity", higher_is_better=False, samples=256)
    drawn = walkback.FrozenBaseline(score=perplexity, frozen_blocks=("1",), blocks_at="trained norms")
    assert str(drawn) == "24.1 perplexity on 256 samples, block 1 frozen, drawn anew with the norms of trained ones"


def test_some_sites_alone_leave_the_blocks_what_they_are(matched):
    report = walkback.diagnose(ResMLP(), BATCHES, frozen_baseline_acc=matched, sites=[0, 3])
    assert report.frozen == matched.frozen


def test_compiled_blocks_have_the_names_of_plain_ones(matched):
    model = ResMLP()
    model.blocks[1] = torch.compile(model.blocks[1], backend="eager")
    assert walkback.diagnose(model, BATCHES, frozen_baseline_acc=matched).frozen == matched.frozen


def test_a_monitor_judges_d_by_accuracy():
    with pytest.raises(InputError, match="in perplexity, and a monitor judges"):
        walkback.Monitor(ResMLP(), BATCHES, frozen_baseline_acc=perplexity(3.0))


def test_a_list_that_is_claimed_stands_beside_the_one_that_was_counted():
    """Only the counted answers can check a claim; the claimed ones are what a baseline is paired with."""
    torch.manual_seed(0)
    model, batches = ResMLP(), labelled(128, 128)
    counted = walkback.diagnose(model, batches).headline_correct
    fake = [True] * 250 + [False] * 6
    claimed = walkback.Score(value=250 / 256, samples=256, correct=fake)
    report = walkback.diagnose(model, batches, headline_acc=claimed, panel="calibrated")
    assert report.headline_correct.right.tolist() == fake
    assert report.counted_correct == counted
    assert report.reading("hc").state is walkback.State.FIRE
    assert walkback.diagnose(model, batches, headline_acc=0.5).counted_correct is None


def test_what_is_no_name_of_a_rule_and_no_baseline_is_told():
    torch.manual_seed(0)
    model, batches = ResMLP(), labelled(32)
    with pytest.raises(InputError, match="claimed_rule is 3; expected the name of the rule as text"):
        walkback.diagnose(model, batches, claimed_rule=3)
    with pytest.raises(InputError, match="claimed_rule is None"):
        walkback.diagnose(model, batches, claimed_rule=None)
    with pytest.raises(InputError, match="random_baseline is 'x'"):
        walkback.diagnose(model, batches, random_baseline="x")
    with pytest.raises(InputError, match="frozen_baseline_acc is 'x'"):
        walkback.diagnose(model, batches, frozen_baseline_acc="x")
