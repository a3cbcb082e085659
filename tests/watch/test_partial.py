import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import walkback.errors
from walkback import compare
from walkback.errors import InputError
from walkback.present.comparison import short_verdict
from walkback.protocol.diagnostics.some_sites import growth_between_ends
from walkback.protocol.records import State
from walkback.watch.partial import PartialMeasurements, partial_audit
from walkback.watch.replay import replay

ROOT = Path(__file__).parents[2]
AUDIT = json.loads((ROOT / "tests" / "golden" / "resmlp_d256_audit_3seed.json").read_text())["reports"]
FAILED = {name: report for name, report in AUDIT.items() if report["verdict"] != "trustworthy"}


def ends_of(report):
    norms = report["residual_norms"]
    return PartialMeasurements(blocks=4, residual_norms={0: norms[0], 4: norms[4]})


def test_the_two_ends_of_the_stream_prove_none_of_the_nine_recorded_failures():
    assert len(FAILED) == 9
    readings = {name: partial_audit(ends_of(report)).reading("a") for name, report in FAILED.items()}
    assert {reading.state for reading in readings.values()} == {State.UNDECIDED}
    means = sorted(reading.value for reading in readings.values())
    assert [round(mean) for mean in (means[0], means[-1])] == [9, 23]
    for name, report in FAILED.items():
        norms = report["residual_norms"]
        assert readings[name].value == pytest.approx((norms[4] / norms[0]) ** 0.25)
        assert max(b / a for a, b in pairwise(norms)) > 50


def test_all_sites_prove_all_nine():
    for report in FAILED.values():
        known = PartialMeasurements(blocks=4, residual_norms=dict(enumerate(report["residual_norms"])))
        assert partial_audit(known).reading("a").state is State.FIRE


def test_the_docs_say_what_the_bound_gives_on_the_recorded_failures():
    text = (ROOT / "docs" / "watch.md").read_text()
    for name, report in FAILED.items():
        mean = partial_audit(ends_of(report)).reading("a").value
        largest = max(b / a for a, b in pairwise(report["residual_norms"]))
        assert f"| {name} | {walkback.protocol.wording.written(mean)} | " in text, name
        assert f"| {walkback.protocol.wording.written(largest)} | undecided |" in text, name


norms = st.floats(min_value=1e-6, max_value=1e12)


@given(st.lists(norms, min_size=3, max_size=7), st.data())
def test_fire_is_given_only_where_it_is_true_and_pass_never(stream, data):
    sites = range(len(stream))
    known = data.draw(st.sets(st.sampled_from(sites), min_size=2, max_size=len(stream) - 1))
    partial = PartialMeasurements(blocks=len(stream) - 1, residual_norms={s: stream[s] for s in known})
    reading = partial_audit(partial).reading("a")
    assert reading.state in (State.FIRE, State.UNDECIDED)
    largest = max(b / a for a, b in pairwise(stream))
    assert largest >= reading.value * (1 - 1e-9)
    if reading.state is State.FIRE:
        assert largest > 50 * (1 - 1e-9)


def test_a_proven_firing():
    known = PartialMeasurements(blocks=2, residual_norms={0: 1.0, 2: 3600.0})
    reading = partial_audit(known).reading("a")
    assert (reading.state, reading.value, reading.reason) == (State.FIRE, 60.0, "residual stream exploded")
    assert "in which of them is not known" in reading.sentence


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1e4, "the other 3 together grow it by less than 200"),
        (5.0, "the other 3 together shrink it by 10.0"),
    ],
)
def test_what_the_other_blocks_would_have_to_do_for_a_to_fire(ratio, expected):
    known = PartialMeasurements(blocks=4, residual_norms={0: 1.0, 4: ratio})
    reading = partial_audit(known).reading("a")
    assert reading.state is State.UNDECIDED
    assert expected in reading.sentence
    # One block at 50 and three at the stated factor give the ratio that was seen.
    each = 5.848 if ratio > 50 else 1 / 2.154
    assert 50 * each**3 == pytest.approx(ratio, rel=1e-3)


def test_sites_beyond_those_recorded_leave_a_undecided_and_one_site_says_nothing():
    most = PartialMeasurements(blocks=3, residual_norms={0: 1.0, 1: 1.0, 2: 1.0})
    assert "the sites beyond were not recorded" in partial_audit(most).reading("a").sentence
    one = partial_audit(PartialMeasurements(blocks=3, residual_norms={3: 1e9}))
    assert one.reading("a").state is State.NOT_MEASURED


def test_b_at_another_site_is_a_named_proxy():
    low = partial_audit(PartialMeasurements(blocks=4, bp_grad_norms={2: 5e-10}))
    assert (low.reading("b").state, low.reading("b").site) == (State.FIRE, 2)
    assert "site 2, a proxy for the deepest site 4" in low.reading("b").sentence
    assert low.verdict == "needs walk-back: BP grad at numerical floor"
    high = partial_audit(PartialMeasurements(blocks=4, bp_grad_norms={2: 1e-6, 4: 2e-6}))
    assert high.reading("b").state is State.PASS
    assert "the deepest site" in high.reading("b").sentence


def test_what_is_missing_is_not_measured_and_d_is_exact():
    report = partial_audit(
        PartialMeasurements(blocks=4, bp_grad_norms={2: 1e-6}, headline_acc=0.36, frozen_baseline_acc=0.349)
    )
    states = {r.letter: r.state for r in report.readings}
    assert states == {
        "a": State.NOT_MEASURED, "b": State.PASS, "c": State.NOT_MEASURED, "d": State.FIRE,
    }  # fmt: skip
    assert report.reading("d").value == pytest.approx(1.1)
    assert not report.complete
    assert report.extra == {"g_2": 1e-6}


def test_nothing_but_one_norm_is_incomplete_and_a_record_still_saves_and_loads(tmp_path):
    report = partial_audit(PartialMeasurements(blocks=4, residual_norms={0: 1.0, 4: 10.0}), method_name="x")
    assert report.verdict == "incomplete: (b), (c), (d) not measured, (a) undecided"
    assert walkback.DiagnosticReport.load(report.save(tmp_path / "r.json")) == report
    assert "UNDECIDED" in report.to_text().upper()


def test_non_finite_values_fire_before_all_else():
    known = PartialMeasurements(blocks=4, residual_norms={0: 1.0, 4: math.nan}, bp_grad_norms={2: math.inf})
    assert partial_audit(known).verdict == "needs walk-back: non-finite values"


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("letter", "name", "site"), [("a", "residual_norms", "h_4"), ("b", "bp_grad_norms", "g_4")])
@pytest.mark.parametrize("panel", ["april2026", "june2026", "calibrated"])
def test_the_diagnostic_that_reads_what_is_not_finite_fires_and_no_other(letter, name, site, value, panel):
    norms = {"residual_norms": {0: 8.7, 4: 9.4}, "bp_grad_norms": {4: 4e-3}}
    norms[name] = norms[name] | {4: value}
    report = partial_audit(PartialMeasurements(blocks=4, **norms), panel=panel)
    assert (report.outcome, report.decided_by) == ("fail", (letter,))
    assert report.reading(letter).sentence.startswith(f"{site} holds NaN or Inf")
    assert report.verdicts["april2026"].words == "needs walk-back: non-finite values"


def test_complete_records_are_judged_exactly():
    report = AUDIT["dfa_s42"]
    known = PartialMeasurements(
        blocks=4, residual_norms=dict(enumerate(report["residual_norms"])),
        bp_grad_norms=dict(enumerate(report["bp_grad_norms"])), headline_acc=report["headline_acc"],
        frozen_baseline_acc=report["frozen_baseline_acc"], cross_batch_stability=report["cross_batch_stability"],
    )  # fmt: skip
    assert partial_audit(known).verdict == report["verdict"]


def test_sites_that_the_network_does_not_have():
    with pytest.raises(InputError, match="names site 5, but the sites of 4 blocks are 0 … 4"):
        partial_audit(PartialMeasurements(blocks=4, residual_norms={0: 1.0, 5: 2.0}))
    with pytest.raises(InputError, match="blocks"):
        PartialMeasurements(blocks=0)


@pytest.mark.parametrize("norms", [{0: 1.0, 9: 2.0}, {0: 1.0, 1: 2.0, 9: 3.0}, {-1: 1.0, 0: 2.0}])
def test_a_site_beyond_the_last_is_refused_however_many_there_are(norms):
    known = PartialMeasurements(blocks=1, residual_norms={0: 1.0, 1: 1.0}, bp_grad_norms=norms)
    with pytest.raises(InputError):
        known.measurements()


def test_a_log_with_a_site_beyond_the_last_is_refused(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"epoch": 0, "h0": 1.5, "h1": 2.5, "g0": 0.01, "g1": 0.02}\n' * 2)
    with pytest.raises(walkback.errors.WalkbackError, match="9"):
        replay(tmp_path / "log.jsonl", columns="h_0=h0,h_1=h1,g_0=g0,g_9=g1,epoch=epoch")


def test_an_undecided_reading_is_not_one_that_was_not_measured():
    known = PartialMeasurements(blocks=4, residual_norms={0: 8.0, 4: 32.0}, bp_grad_norms={4: 1e-9})
    report = partial_audit(known, method_name="log")
    assert short_verdict(report) == "walk-back b, no c d, a undecided"
    table = " ".join(compare([report]).split())
    assert "(a) does not settle it" in table
    assert "`no d`: (d) not measured" in table


def test_the_growth_between_both_ends_is_in_the_table():
    known = PartialMeasurements(blocks=4, residual_norms={0: 8.0, 4: 32.0}, bp_grad_norms={4: 1e-3})
    assert growth_between_ends(known.measurements()) == 4.0
    table = compare([partial_audit(known)])
    assert "‖h_L‖/‖h_0‖" in table
    assert "4.00" in table
    for norms in ({4: 32.0}, {0: 8.0, 2: 9.0}, dict(enumerate([8.0] * 5))):
        assert growth_between_ends(PartialMeasurements(blocks=4, residual_norms=norms).measurements()) is None
