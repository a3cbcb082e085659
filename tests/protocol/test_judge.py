"""Measurements → readings → verdict, without torch."""

import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walkback.errors import InputError, RecordError
from walkback.present.outline import verdict_line
from walkback.protocol.judge import judge
from walkback.protocol.records import Alignment, DiagnosticReport, Interval, Measurements, State
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.verdict import exit_status

HEALTHY = {
    "residual_norms": [8.7, 8.8, 8.9],
    "bp_grad_norms": [8e-3, 8e-3, 8e-3],
    "stability_layer": 1,
    "cross_batch_stability": 0.1,
    "headline_acc": 0.61,
    "frozen_baseline_acc": 0.35,
}


def report(**changes):
    return judge(Measurements(**(HEALTHY | changes)))


def states(judged):
    return {r.letter: r.state for r in judged.readings}


def test_a_healthy_network_is_trustworthy_and_complete():
    judged = report()
    assert judged.verdict == "trustworthy"
    assert judged.complete
    assert set(states(judged).values()) == {State.PASS}
    assert verdict_line(judged) == "trustworthy on (a), (b), (c), (d)"


@pytest.mark.parametrize(
    ("changes", "letter", "reason"),
    [
        ({"residual_norms": [1.0, 50.001, 51]}, "a", "residual stream exploded"),
        ({"bp_grad_norms": [1e-3, 1e-3, 9.999e-8]}, "b", "BP grad at numerical floor"),
        ({"cross_batch_stability": 0.3001}, "c", "BP grad direction is drift-dominated"),
        ({"headline_acc": 0.3699}, "d", "deep blocks fail to beat frozen-random baseline"),
    ],
)
def test_each_diagnostic_fires_alone_just_past_its_threshold(changes, letter, reason):
    judged = report(**changes)
    assert judged.verdict == f"needs walk-back: {reason}"
    assert [r.letter for r in judged.readings if r.state is State.FIRE] == [letter]


@pytest.mark.parametrize(
    "changes",
    [
        {"residual_norms": [1.0, 50.0, 50.0]},
        {"bp_grad_norms": [1e-9, 1e-9, 1e-7]},
        {"cross_batch_stability": 0.30},
        {"headline_acc": 0.5, "frozen_baseline_acc": 0.48},
    ],
)
def test_a_figure_on_its_threshold_does_not_fire(changes):
    assert report(**changes).verdict == "trustworthy"


def test_all_reasons_stand_in_the_published_order():
    judged = report(residual_norms=[1, 1e3, 1e6], bp_grad_norms=[1e-9] * 3, cross_batch_stability=0.9, headline_acc=0.3)
    assert judged.verdict == (
        "needs walk-back: residual stream exploded; BP grad at numerical floor; "
        "BP grad direction is drift-dominated; deep blocks fail to beat frozen-random baseline"
    )


def test_growth_is_per_block_not_over_the_whole_stream():
    judged = report(residual_norms=[0.33, 8.0, 200.0])
    assert judged.max_per_block_growth == pytest.approx(25)
    assert judged.verdict == "trustworthy"


PLACES = [("residual_norms", i) for i in range(3)] + [("bp_grad_norms", i) for i in range(3)]
PLACES += [("cross_batch_stability", None), ("headline_acc", None), ("frozen_baseline_acc", None)]


@given(st.sampled_from(PLACES), st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_a_non_finite_value_anywhere_is_never_trustworthy_and_comes_first(place, value):
    name, index = place
    changed = list(HEALTHY[name]) if index is not None else value
    if index is not None:
        changed[index] = value
    try:
        judged = report(**{name: changed})
    except InputError:
        assert name.endswith("_acc")
        assert abs(value) == float("inf")  # no score in [0, 1] at all
        return
    assert judged.verdict.startswith("needs walk-back: non-finite values")


@pytest.mark.parametrize("field", ["nonfinite_hiddens", "nonfinite_grads"])
def test_one_broken_sample_fires_though_the_medians_are_fine(field):
    judged = report(**{field: [0, 1, 0]})
    assert judged.verdict == "needs walk-back: non-finite values"


def test_broken_logits_fire():
    assert report(nonfinite_logits=1).verdict == "needs walk-back: non-finite values"


def test_non_finite_values_come_before_other_reasons():
    judged = report(residual_norms=[1, 1e5, 1e5], bp_grad_norms=[1e-3, float("nan"), 1e-3])
    assert judged.verdict == "needs walk-back: non-finite values; residual stream exploded"


def test_what_was_not_measured_is_said_and_is_not_a_pass():
    judged = judge(Measurements(residual_norms=[1, 1.1], bp_grad_norms=[1e-3, 1e-3]))
    assert judged.verdict == "trustworthy"
    assert not judged.complete
    assert verdict_line(judged) == "trustworthy on (a), (b); (c), (d) not measured"
    assert states(judged)["d"] is State.NOT_MEASURED


def test_all_four_can_be_required():
    judged = judge(Measurements(residual_norms=[1, 1.1], bp_grad_norms=[1e-3, 1e-3]), require_all=True)
    assert judged.verdict == "incomplete: (c), (d) not measured"


def test_without_a_and_b_a_report_is_incomplete():
    assert judge(Measurements(headline_acc=0.6, frozen_baseline_acc=0.3)).verdict.startswith("incomplete: ")
    assert judge(Measurements(residual_norms=[1, 1.1])).verdict == "trustworthy"


def test_a_firing_outranks_incomplete():
    judged = judge(Measurements(headline_acc=0.3, frozen_baseline_acc=0.3), require_all=True)
    assert judged.verdict == "needs walk-back: deep blocks fail to beat frozen-random baseline"


def test_exit_status_of_several_outcomes():
    assert exit_status(["pass"]) == 0
    assert exit_status(["pass", "incomplete"]) == 3
    assert exit_status(["incomplete", "fail"]) == 1


def interval(low, high):
    return Interval(low=low, high=high, level=0.95, how="test")


def test_a_reading_whose_interval_crosses_the_threshold_is_fragile():
    judged = report(cross_batch_stability=0.28, cross_batch_stability_interval=interval(0.2, 0.36))
    assert judged.reading("c").fragile
    assert judged.reading("c").state is State.PASS
    assert not report(cross_batch_stability_interval=interval(0.05, 0.15)).reading("c").fragile


def test_growth_interval_combines_both_medians():
    norms = [interval(1.0, 2.0), interval(60.0, 90.0), interval(60.0, 90.0)]
    judged = report(residual_norms=[1.5, 70.0, 71.0], residual_norm_intervals=norms)
    reading = judged.reading("a")
    assert (reading.interval.low, reading.interval.high) == (30.0, 90.0)
    assert reading.fragile


def test_margin_interval_needs_the_sizes_of_both_test_sets():
    assert report().reading("d").interval is None
    judged = report(headline_samples=10_000, frozen_baseline_samples=10_000)
    assert judged.reading("d").interval.contains(26.0)
    narrow = report(headline_acc=0.375, headline_samples=1000, frozen_baseline_samples=1000)
    assert narrow.reading("d").fragile


@pytest.mark.parametrize(
    ("changes", "case", "words"),
    [
        ({"error_size": 0.9, "reference_fidelity": [1.0, 1.0, 1.0], "scale_free_gradients": [9, 9, 14.0]}, "scale",
         "small by scale.*numerically sound"),
        ({"error_size": 1e-6, "reference_fidelity": [1.0, 1.0, 1.0]}, "confident", "confident.*not a broken one"),
        ({"error_size": 0.9, "reference_fidelity": [1.0, 1.0, 0.4]}, "unreliable", "numerically unreliable.*noise"),
        ({"error_size": 0.9}, "scale", "not measured"),
        ({}, "unknown", "error size .* was not measured"),
    ],
)  # fmt: skip
def test_a_fired_floor_says_which_case_it_is(changes, case, words):
    reading = report(bp_grad_norms=[6e-8, 6e-8, 6e-8], **changes).reading("b")
    assert reading.state is State.FIRE
    assert reading.case == case
    assert re.search(words, reading.sentence)


def test_gamma_is_marked_where_the_floor_fired():
    measured = Measurements(
        **(HEALTHY | {"bp_grad_norms": [1e-9] * 3}),
        alignment=Alignment(sites=[0.4, 0.1, 0.1], deep=0.1),
        reference_fidelity=[1.0, 1.0, 1.0],
    )
    assert "(b) fired" in judge(measured).alignment.mark
    assert "sound" in judge(measured).alignment.mark
    assert report(alignment=Alignment(sites=[0.4, 0.1, 0.1], deep=0.1)).alignment.mark == ""


def test_drift_share_may_be_judged_instead():
    thresholds = DiagnosticThresholds(drift_share_ceiling=0.01)
    measured = Measurements(**(HEALTHY | {"cross_batch_stability": 0.9, "drift_shares": [0.5, 0.005, 0.5]}))
    assert judge(measured, thresholds).verdict == "trustworthy"
    assert "0.005" in judge(measured).reading("c").sentence


def test_measurements_are_built_from_arrays_of_any_kind():
    import torch

    arrays = Measurements(
        residual_norms=np.array([1, 2], dtype=np.float32), bp_grad_norms=torch.tensor([0.5, 0.25]),
        headline_acc=np.float32(0.5),
    )  # fmt: skip
    assert arrays == Measurements(residual_norms=[1, 2], bp_grad_norms=[0.5, 0.25], headline_acc=0.5)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"residual_norms": [1, 2], "bp_grad_norms": [1]}, "numbers of sites differ"),
        ({"residual_norms": []}, "no sites"),
        ({"headline_acc": 61.4}, "divide percentages by 100"),
        ({"residual_norms": [1, 2], "stability_layer": 2}, "not one of the 2 sites"),
        ({"residual_norm": [1]}, "residual_norm"),
        ({"residual_norms": "abc"}, "residual_norms"),
    ],
)
def test_measurements_that_cannot_be_right_are_refused(fields, words):
    with pytest.raises(InputError, match=words):
        Measurements(**fields)


@pytest.mark.parametrize("value", [0.0, -1e-7, float("nan"), float("inf")])
def test_thresholds_that_cannot_be_right_are_refused(value):
    with pytest.raises(InputError, match="g_norm_floor"):
        DiagnosticThresholds(g_norm_floor=value)


norms = st.one_of(st.floats(min_value=0), st.sampled_from([math.nan, math.inf, -math.inf]))


@given(st.lists(norms, min_size=2, max_size=5).filter(any), st.text(max_size=30), st.text(max_size=30))
def test_a_report_survives_json_and_never_holds_a_bare_nan(values, name, notes):
    judged = judge(Measurements(residual_norms=values, bp_grad_norms=values), method_name=name, notes=notes)
    text = json.dumps(judged.to_dict(), allow_nan=False)
    again = DiagnosticReport.from_dict(json.loads(text))
    assert again.to_dict() == judged.to_dict()


def test_save_and_load(tmp_path):
    judged = report()
    assert DiagnosticReport.load(judged.save(tmp_path / "r.json")) == judged


def test_another_schema_version_and_unknown_fields_are_refused():
    data = report().to_dict()
    with pytest.raises(RecordError, match="schema_version 3; this walkback reads the versions 1 and 2"):
        DiagnosticReport.from_dict(data | {"schema_version": 3})
    with pytest.raises(RecordError, match="no schema_version"):
        DiagnosticReport.from_dict({k: v for k, v in data.items() if k != "schema_version"})
    with pytest.raises(RecordError, match="colour"):
        DiagnosticReport.from_dict(data | {"colour": "red"})


def test_saving_into_no_folder_says_so_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*No such file"):
        report().save(tmp_path / "nowhere" / "r.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = report().save(tmp_path / "r.json")
    before = path.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        report(headline_acc=0.9).save(path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_judging_and_help_import_no_torch():
    code = (
        "import sys, walkback; m = walkback.Measurements(residual_norms=[1, 2], bp_grad_norms=[1, 1]); "
        "print(walkback.judge(m)); from walkback.cli import main; "
        "heavy = {'torch', 'matplotlib', 'ray', 'lightning', 'transformers', 'sklearn'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_norm_below_zero_is_refused():
    with pytest.raises(InputError, match=r"bp_grad_norms holds -1\.0; a norm is 0 or more"):
        Measurements(residual_norms=[1.0, 2.0], bp_grad_norms=[1.0, -1.0])


def test_growth_from_exactly_zero_is_told_as_that_and_not_as_an_explosion():
    report = judge(Measurements(residual_norms=[0.0, 8.0, 9.0], bp_grad_norms=[1e-3] * 3))
    reading = report.reading("a")
    assert reading.state is State.FIRE
    assert "exactly 0" in reading.sentence
    assert "penalise" not in str(report)
