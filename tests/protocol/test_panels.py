"""Panels: the published four in the published words, the paper's three, and panels of others; old records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import walkback
from walkback.errors import InputError, UnknownName
from walkback.protocol.found import Overlap
from walkback.protocol.panels import Member, Panel
from walkback.protocol.records import Alignment, DiagnosticReport, Measurements, State
from walkback.registry import PANELS, register, unregister

RUNS = sorted((Path(__file__).parents[2] / "results" / "runs").glob("*.json"))[::25]
GAMMA = Alignment(sites=(0.4, 0.0, 0.0), deep=0.0)
HEALTHY = {
    "residual_norms": [8.7, 8.8, 8.9], "bp_grad_norms": [8e-3, 8e-3, 8e-3], "stability_layer": 1,
    "cross_batch_stability": 0.1, "headline_acc": 0.61, "frozen_baseline_acc": 0.35, "alignment": GAMMA,
}  # fmt: skip


def judged(panel=None, require_all=False, **changes):
    return walkback.judge(Measurements(**HEALTHY | changes), panel=panel, require_all=require_all)


@pytest.mark.parametrize(
    ("changes", "april", "june"),
    [
        ({}, "trustworthy", "PASS"),
        ({"residual_norms": [1, 60, 61]}, "needs walk-back: residual stream exploded", "FAIL(D1)"),
        (
            {"residual_norms": [1, 60, 61], "bp_grad_norms": [1e-3, 1e-3, 1e-9]},
            "needs walk-back: residual stream exploded; BP grad at numerical floor",
            "FAIL(D1+D2)",
        ),
        ({"cross_batch_stability": 0.5}, "needs walk-back: BP grad direction is drift-dominated", "PASS"),
        (
            {"frozen_baseline_acc": 0.6},
            "needs walk-back: deep blocks fail to beat frozen-random baseline",
            "FAIL(D3)",
        ),
        ({"frozen_baseline_acc": None}, "trustworthy", "INCOMPLETE(D3)"),
        ({"alignment": None}, "trustworthy", "INCOMPLETE(per-layer cosine)"),
        ({"alignment": Alignment(unavailable="no feedback")}, "trustworthy", "INCOMPLETE(per-layer cosine)"),
    ],
)
def test_each_panel_has_its_own_words_and_all_come_with_every_report(changes, april, june):
    report = judged(**changes)
    assert report.verdict == report.verdicts["april2026"].words == april
    assert report.verdicts["june2026"].words == june
    assert (report.panel, report.outcome) == ("april2026", report.verdicts["april2026"].outcome)
    under = report.under("june2026")
    assert (under.verdict, under.outcome) == (june, report.verdicts["june2026"].outcome)
    assert under.verdicts["april2026"].words == april
    assert under.trustworthy == (june == "PASS")
    assert judged("june2026", **changes) == under


def test_what_decided_is_named():
    report = judged(residual_norms=[1, 60, 61], frozen_baseline_acc=0.6)
    assert (report.outcome, report.decided_by) == ("fail", ("a", "d"))
    assert judged().decided_by == ("a", "b", "c", "d")
    assert judged("june2026", alignment=None).decided_by == ("g",)


@pytest.mark.parametrize("panel", ["april2026", "june2026"])
@pytest.mark.parametrize(
    "field", ["residual_norms", "bp_grad_norms", "error_size", "cross_batch_stability", "headline_acc", "drift_shares"]
)
def test_nan_in_any_field_fails_under_every_panel(field, panel):
    value = float("nan")
    report = judged(panel, **{field: value if field in ("error_size", "cross_batch_stability", "headline_acc") else
                              [value] * 3})  # fmt: skip
    assert report.outcome == "fail"
    assert "non-finite" in report.decision.words


def test_the_layers_cosine_is_reported_where_the_panel_names_it_and_never_fires():
    assert "g" not in {reading.letter for reading in judged().readings}
    reading = judged("june2026").reading("g")
    assert (reading.state, reading.value) == (State.REPORTED, 0.0)
    assert judged("june2026", alignment=Alignment(sites=(-1.0, -1.0, -1.0), deep=-1.0)).outcome == "pass"


@pytest.fixture
def lenient():
    """A panel in which growth decides and drift only warns."""
    members = (Member("residual_growth", label="growth"), Member("direction_drift", role="warns"))
    yield register("panels", "lenient", Panel("lenient", "two of the four", members, version=3))
    unregister("panels", "lenient")


def test_a_panel_of_ones_own_decides_and_warns(lenient):
    report = judged("lenient", cross_batch_stability=0.5, bp_grad_norms=[1e-9] * 3)
    assert (report.outcome, report.decision.warned_by, report.decision.version) == ("pass", ("c",), 3)
    assert report.verdict == report.decision.words == "pass on growth"
    assert report.verdicts["april2026"].words.startswith("needs walk-back")
    failed = judged("lenient", residual_norms=[1, 60, 61])
    assert (failed.decision.words, failed.decided_by) == ("fail: residual stream exploded", ("a",))
    nothing = walkback.judge(Measurements(bp_grad_norms=[1e-3]), panel="lenient")
    assert (nothing.outcome, nothing.decided_by) == ("incomplete", ("a",))


def test_a_record_whose_panel_is_not_here_says_so_and_is_judged_by_the_published_one(lenient, tmp_path):
    path = judged("lenient", cross_batch_stability=0.5).save(tmp_path / "r.json")
    assert DiagnosticReport.load(path).panel == "lenient"
    unregister("panels", "lenient")
    again = DiagnosticReport.load(path)
    assert (again.panel, again.outcome) == ("april2026", "fail")
    assert "'lenient'" in again.warnings[0]


def copied():
    """Half of the test samples are in the training set; the published four have nothing against the network."""
    return Measurements(
        residual_norms=[1, 1.1], bp_grad_norms=[1e-3, 1e-3], cross_batch_stability=0.1, headline_acc=0.6,
        frozen_baseline_acc=0.3, overlap=Overlap(test_samples=1280, train_samples=1280, count=640, same_label=640),
    )  # fmt: skip


def test_the_verdict_never_passes_what_the_deciding_panel_fails():
    report = walkback.judge(copied(), panel="calibrated")
    assert (report.outcome, report.verdict) == ("fail", "fail: test samples in the training set")
    assert report.verdict == report.under("calibrated").verdict == report.under("april2026").under("calibrated").verdict
    assert not report.trustworthy
    assert report.verdicts["april2026"].words == report.under("april2026").verdict == "trustworthy"


@pytest.mark.parametrize("panel", ["april2026", "june2026", "calibrated"])
@pytest.mark.parametrize("require_all", [False, True])
@pytest.mark.parametrize("norms", [(1.0, 1.1), (1.0, 900.0)])
def test_a_record_says_under_each_panel_what_the_report_said(panel, require_all, norms, tmp_path):
    known = copied().model_copy(update={"residual_norms": norms, "headline_acc": None})
    report = walkback.judge(known, panel=panel, require_all=require_all)
    assert DiagnosticReport.load(report.save(tmp_path / "r.json")) == report


def test_a_record_of_before_had_the_published_words_and_says_what_it_said():
    report = walkback.judge(copied(), panel="calibrated")
    again = DiagnosticReport.from_dict(report.to_dict() | {"verdict": "trustworthy"})
    assert again == report
    forged = DiagnosticReport.from_dict(report.to_dict() | {"verdict": "pass on (o)"})
    assert (forged.verdict, forged.stored.verdict) == (report.verdict, "pass on (o)")


def test_a_record_that_another_panel_decided_is_replayed_with_what_it_said(tmp_path):
    path = walkback.judge(copied(), panel="calibrated").save(tmp_path / "r.json")
    (entry,) = walkback.replay(path)
    assert (entry.report.verdict, entry.recorded_verdict) == ("trustworthy", "fail: test samples in the training set")
    assert "calibrated" in entry.report.stored.differs[0]
    (same,) = walkback.replay(path, panel="calibrated")
    assert (same.report.outcome, same.report.stored) == ("fail", None)


def test_a_record_cannot_name_what_is_imported(tmp_path):
    data = judged().to_dict() | {"panel": "antigravity:fly"}
    again = DiagnosticReport.from_dict(data)
    assert again.panel == "april2026"
    assert "antigravity" in again.warnings[0]


@pytest.mark.parametrize(
    ("thing", "sentence"),
    [
        ("june2026", "expected a walkback.Panel"),
        (Panel("bad", "t", (Member("no_such"),)), "there is no diagnostic called 'no_such'"),
        (Panel("bad", "t", (Member("layer_cosine", role="informs"),)), "no diagnostic that decides"),
        (Panel("other", "t", (Member("residual_growth"),)), "calls itself 'other'"),
    ],
)
def test_what_is_no_panel_is_refused(thing, sentence):
    with pytest.raises(InputError, match=sentence):
        register("panels", "bad", thing)
    assert "bad" not in PANELS


def test_an_unknown_panel_is_refused_before_anything_is_measured():
    with pytest.raises(UnknownName, match="Did you mean 'june2026'"):
        walkback.diagnose(None, None, panel="june2025")


def test_a_panels_verdict_in_a_record_is_not_believed():
    data = judged().to_dict()
    data["verdicts"]["june2026"]["words"] = "FAIL(D1)"
    again = DiagnosticReport.from_dict(data)
    assert again.verdicts["june2026"].words == "PASS"
    assert "june2026" in again.stored.differs[0]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_records_of_before_are_judged_by_every_panel_and_keep_their_verdict(path):
    stored = json.loads(path.read_text())["report"]
    report = DiagnosticReport.from_dict(stored)
    assert (report.verdict, report.stored) == (stored["verdict"], None)
    assert set(report.verdicts) == {"april2026", "june2026"}
