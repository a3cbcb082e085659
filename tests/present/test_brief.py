"""The report in ten lines: nothing that decides is left out of them."""

import numpy as np
import pytest
from present_samples import AWKWARD, full, healthy

from walkback.present.brief import brief
from walkback.present.in_panel import decides
from walkback.present.in_short import in_a_sentence
from walkback.present.numbers import reading_value
from walkback.present.plain import SENTENCE_LENGTH
from walkback.present.text import WIDTH, render_brief
from walkback.protocol.diagnostics.declare import FIND_THE_FIRST
from walkback.protocol.diagnostics.frozen_margin import CLOSE, HARMFUL, FrozenMargin
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.headline import contradiction
from walkback.protocol.judge import judge
from walkback.protocol.pairing import Answered
from walkback.protocol.panels.calibrated import RATES_FILE
from walkback.protocol.panels.rates import Rates
from walkback.protocol.records import Measurements, State
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.wording import p_value


def under(label, report):
    """The lines of one label."""
    found, rows = [], brief(report)
    for number, (name, words) in enumerate(rows):
        if name == label:
            found.append(words)
            found += [more for nothing, more in _until_next(rows[number + 1 :])]
    return found


def _until_next(rows):
    for name, words in rows:
        if name:
            return
        yield name, words


def test_printing_a_report_prints_these_lines_and_the_verdict_first():
    report = full()
    assert str(report) == render_brief(report)
    assert str(report).splitlines()[0].startswith("verdict: needs walk-back")


def test_everything_that_fired_is_there_with_its_value_its_limit_and_its_block():
    report = full()
    why = under("why", report)
    fired = [r for r in report.readings if r.state is State.FIRE]
    assert len(why) == len(fired) == 3
    for words, reading in zip(why, fired, strict=True):
        assert f"({reading.letter})" in words
        assert reading_value(reading) in words
        assert by_letter(reading.letter).meaning_of(reading, report) in words
        assert reading.site is None or report.sites[reading.site] in words


def test_what_to_do_next_is_what_the_diagnostics_say():
    report = full()
    remedies = [by_letter(r.letter).remedy_for(r.case) for r in report.readings if r.state is State.FIRE]
    assert under("next", report) == remedies


def test_an_interval_that_crosses_its_threshold_is_named():
    sure, *_ = under("how sure", AWKWARD["fragile"])
    fragile = [r for r in AWKWARD["fragile"].readings if r.fragile]
    assert fragile
    assert all(f"({r.letter}): the 95 % interval" in sure for r in fragile)
    assert "includes" not in " ".join(under("how sure", healthy()))


def test_a_published_panel_tells_how_often_it_was_wrong_with_the_published_thresholds_alone():
    rates = Rates.load(RATES_FILE).published["april2026"]
    told = " ".join(under("how sure", full()))
    assert f"{rates.flagged.count} of {rates.flagged.of} healthy" in told
    assert f"{rates.found.count} of {rates.found.of} faulty" in told
    other = judge(full().measurements, thresholds=DiagnosticThresholds(g_norm_floor=1e-9))
    assert "healthy" not in " ".join(under("how sure", other))
    june = " ".join(under("how sure", full().under("june2026")))
    assert f"{Rates.load(RATES_FILE).published['june2026'].flagged.count} of " in june


def test_what_was_not_measured_is_named_and_so_is_how_to_measure_it():
    report = healthy()
    assert under("not known", report) == ["(d) frozen margin"]
    assert any("frozen_baseline" in words for words in under("next", report))
    assert not under("not known", full())


@pytest.mark.parametrize("name", AWKWARD)
def test_no_report_is_long_wide_or_silent(name):
    report = AWKWARD[name]
    lines = render_brief(report).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 3 + sum(1 + len(words) // 60 for _, words in brief(report))
    assert max(len(words) for _, words in brief(report)) <= SENTENCE_LENGTH + 200
    deciders = [r for r in report.readings if r.state is State.FIRE and decides(report, r)]
    assert len(under("why", report)) >= min(len(deciders), 4)


def passing(**fields):
    return judge(Measurements(**{"residual_norms": [8.7, 8.8], "bp_grad_norms": [8e-3, 8e-3]} | fields))


def claimed(right, claim=0.97):
    """A network that answers so many of 1,000 samples rightly, of which 97 % are claimed, as `diagnose` warns of it."""
    counted = {"headline_acc": right / 1000, "headline_samples": 1000}
    correct = Answered.of(np.arange(1000) < right)
    measured = Measurements(
        residual_norms=[8.7, 8.8], bp_grad_norms=[8e-3, 8e-3], samples=1000, headline_acc=claim,
        headline_correct=correct,
    )  # fmt: skip
    return judge(measured, warnings=[words] if (words := contradiction(claim, counted)) else [])


def test_a_pass_with_a_warning_says_so_in_its_first_sentence():
    report = claimed(100)
    assert report.outcome == "pass"
    assert "warning" in in_a_sentence(report)
    assert "Nothing" not in in_a_sentence(report)
    assert "Nothing that was measured speaks against" in in_a_sentence(claimed(970))


def test_a_claimed_accuracy_stands_beside_the_one_that_was_counted():
    assert under("score", claimed(100)) == ["97.00 % as claimed; 10.00 % on these batches"]
    assert under("score", claimed(970)) == ["97.00 %"]


def test_no_p_is_zero():
    (warning,) = under("warning", claimed(100))
    assert "p < 1e-300" in warning
    assert "p = 0 " not in warning
    assert p_value(0.0) == "p < 1e-300"
    assert p_value(0.0021) == "p = 0.002"


@pytest.mark.parametrize(
    "report", [passing(residual_norms=None), passing(samples=2), passing(bp_grad_norms=None, samples=4000)]
)
def test_a_pass_on_next_to_nothing_says_so_and_that_there_is_no_interval(report):
    assert report.verdict == "trustworthy"
    assert "too" in in_a_sentence(report)
    assert "rely on" in in_a_sentence(report)
    assert "no 95 % interval" in under("how sure", report)[0]


def test_a_pass_with_intervals_or_without_samples_is_no_next_to_nothing():
    for report in (healthy(), passing(), passing(samples=4000)):
        assert "too" not in in_a_sentence(report)
    assert "no 95 % interval" not in " ".join(under("how sure", healthy()))


@pytest.mark.parametrize(("accuracy", "baseline", "points"), [(0.0, 0.8266, "82.66"), (0.1594, 0.961, "80.16")])
def test_blocks_that_are_clearly_worse_than_random_ones_are_said_to_do_harm(accuracy, baseline, points):
    report = passing(headline_acc=accuracy, frozen_baseline_acc=baseline, headline_samples=4000)
    assert report.reading("d").case == HARMFUL
    assert f"{points} points worse than with random blocks" in report.reading("d").sentence
    advice = " ".join(under("next", report))
    assert FrozenMargin.case_remedies[HARMFUL] in advice
    assert FrozenMargin.remedy not in advice
    assert passing(headline_acc=0.30, frozen_baseline_acc=0.31).reading("d").case == ""
    assert passing(headline_acc=0.31, frozen_baseline_acc=0.30).reading("d").case == CLOSE


def test_what_numbers_that_are_not_finite_ask_for_comes_alone():
    report = passing(nonfinite_logits=4000, headline_acc=0.0, headline_samples=4000, frozen_baseline_acc=0.8)
    steps = under("next", report)
    assert steps[0] == FIND_THE_FIRST
    assert not {FrozenMargin.remedy, *FrozenMargin.case_remedies.values()} & set(steps)
    assert "logits of 4,000 samples" in under("score", report)[0]
