"""Sweeps and policies are made of what diagnostics and panels declare; chance is made of what the record says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reference.made_results import epoch, network, row, write, write_audit, write_run
from walkback.cli.main import app
from walkback.lab.studies import STUDIES
from walkback.lab.studies.audited import load_audit
from walkback.lab.studies.sensitivity import sweeps
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold
from walkback.protocol.judge import judge
from walkback.protocol.panels import Member, Panel
from walkback.registry import register, unregister


class Rank(Diagnostic):
    """A diagnostic from outside, with a threshold and no say in any panel of walkback's."""

    letter = "e"
    title = "effective rank"
    question = "How many directions does the last site use?"
    meaning = "the last site has collapsed"
    thresholds = {"rank_floor": Threshold(4.0, "<", "effective rank", above=0, sweep=(1.0, 4.0, 30.0))}  # noqa: RUF012
    quantities = (Quantity("effective_rank", "effective rank"),)


@pytest.fixture
def rank():
    register("diagnostics", "effective_rank", Rank)
    yield
    unregister("diagnostics", "effective_rank")


def answer(name, path):
    study = STUDIES.load(name)
    result = study.run(load_audit(path))
    return result, study.paragraphs(result)


def with_rank(report, value, panel=None):
    measured = report.measurements.model_copy(update={"extra": {"effective_rank": value}})
    return judge(measured, panel=panel, method_name=report.method_name, seed=report.seed)


def grid(kind, low, high, step):
    """The published grids, written out again: four points to the decade, or equal steps."""
    if kind == "even":
        return np.arange(low, high + step / 2, step)
    return 10.0 ** np.arange(low, high + 1e-9, 0.25)


def test_the_sweeps_of_the_published_diagnostics_are_the_published_grids():
    found = {sweep.key: sweep for sweep in sweeps() if sweep.letter in "abcd"}
    expected = {
        "a": ("log", 0, 8, 0), "b": ("log", -12, -1, 0), "c": ("even", 0, 0.95, 0.05),
        "c by drift share": ("log", -5, 0, 0), "d": ("even", -10, 30, 0.5),
    }  # fmt: skip
    assert list(found) == list(expected)
    for key, made in expected.items():
        np.testing.assert_allclose(found[key].threshold.tried, grid(*made), rtol=1e-3, atol=1e-9)
    assert {key: sweep.ratio for key, sweep in found.items()} == {
        "a": True, "b": True, "c": False, "c by drift share": False, "d": False,
    }  # fmt: skip


def test_a_diagnostic_from_outside_is_swept_and_moves_no_verdict_that_it_has_no_say_in(rank, tmp_path):
    reports = [with_rank(network("m", seed), value) for seed, value in ((1, 3.0), (2, 20.0))]
    result, parts = answer("sensitivity", write_audit(tmp_path, "x", reports))
    assert [(point["threshold"], point["fired"]) for point in result["sweeps"]["e"]] == [(1.0, 0), (4.0, 1), (30.0, 2)]
    assert {point["changed"] for point in result["sweeps"]["e"]} == {0}
    found = result["diagnostics"]["e"]
    assert (found["threshold"], found["fires_when"], found["fired"], found["measured"]) == (4.0, "below", 1, 2)
    assert found["same_verdicts"] == {"low": None, "high": None, "held_by": 0}
    assert "(e)" in [cells[0] for cells in parts[0].rows]


def test_in_a_panel_in_which_it_decides_it_bounds_the_range(rank, tmp_path):
    mine = Panel("mine", "with the rank", (Member("effective_rank"), Member("residual_growth")))
    register("panels", "mine", mine)
    try:
        reports = [with_rank(network(name, 1), rank, "mine") for name, rank in (("good", 20.0), ("bad", 3.0))]
        path = write_audit(tmp_path, "x", reports)
        result, _ = answer("sensitivity", path)
        assert result["diagnostics"]["e"]["same_verdicts"] == {"low": 3.0, "high": 20.0, "held_by": 1}
        assert result["healthy"] == 1
        policies, parts = answer("ablation", path)
        assert {name: counted["walked_back"] for name, counted in policies["policies"].items()} == {
            "S0": [], "S1": [], "S2": [], "S3": [], "S4": [], "S5": [], "S_full": [],
            "S1 + (e)": ["bad"], "S1 + (a)": [], "mine": ["bad"],
        }  # fmt: skip
        assert "mine: S1, mine" in parts[0].headings
    finally:
        unregister("panels", "mine")


def test_one_that_was_measured_nowhere_changes_no_study(rank, tmp_path):
    write_run(tmp_path, "aaa", [epoch(n) for n in range(3)])
    path = write_audit(tmp_path, "x", [network("m", 1)], [row("m", 1, "aaa")])
    with_it = {name: answer(name, path)[0] for name in ("ablation", "sensitivity", "temporal", "partial", "early-stop")}
    unregister("diagnostics", "effective_rank")
    try:
        without = {name: answer(name, path)[0] for name in with_it}
    finally:
        register("diagnostics", "effective_rank", Rank)
    for name in with_it:
        assert {**with_it[name], "date": ""} == {**without[name], "date": ""}


def test_a_policy_is_made_for_a_diagnostic_beyond_the_published_ones(rank, tmp_path):
    path = write_audit(tmp_path, "x", [with_rank(network("m", 1), 3.0)])
    result, parts = answer("ablation", path)
    assert result["policies"]["S_full"]["walked_back"] == []
    assert result["policies"]["S1 + (e)"]["walked_back"] == ["m"]
    assert result["unmeasured"] == {"a": 0, "b": 0, "c": 0, "d": 0, "e": 0}
    assert parts[0].headings[-1] == "S1 + (e): S1, (e)"


@pytest.mark.parametrize(
    ("classes", "walked_back", "chance"), [(10, ["m"], 0.1), (1000, [], 0.001), (None, [], None)]
)  # fmt: skip
def test_eleven_per_cent_is_chance_of_ten_classes_alone(tmp_path, classes, walked_back, chance):
    path = write_audit(tmp_path, "x", [network("m", 1, acc=0.11, frozen=0.05, classes=classes)])
    result, parts = answer("ablation", path)
    assert result["policies"]["S0"]["walked_back"] == walked_back
    assert result["chance"] == chance
    said = [part for part in parts if isinstance(part, str) and "classes" in part]
    assert bool(said) == (classes is None)


def test_an_untrained_network_of_unknown_classes_is_near_no_chance(tmp_path):
    write_run(tmp_path, "aaa", [epoch(n, acc=0.1) for n in range(2)])
    for classes, near in ((10, True), (2, False), (None, None)):
        path = write_audit(tmp_path, "x", [network("m", 1, classes=classes)], [row("m", 1, "aaa")])
        assert answer("random-init", path)[0]["networks"][0]["near_chance"] is near


def test_an_audit_without_classes_has_those_of_the_data_sets_that_its_grid_names(tmp_path):
    path = write_audit(tmp_path, "x", [network("m", 1, classes=None), network("n", 1, classes=None)])
    audit = json.loads(path.read_text())
    rows = [{"label": "m", "settings": {}}, {"label": "n", "settings": {"data": "somebodys_own"}}]
    write(path, {**audit, "config": {"data": "digits", "rows": rows}})
    assert [report.classes for report in load_audit(path).reports] == [10, None]


@pytest.mark.parametrize("pages", [False, True])
def test_a_study_writes_pages_where_it_is_told_to_and_nowhere_else(tmp_path, monkeypatch, pages):
    results = tmp_path / "results"
    write_audit(results, "x", [network("m", 1)])
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    options = ["--markdown", "pages"] if pages else []
    assert app(["lab", "study", "ablation", "--results", str(results), *options]) == 0
    assert (results / "ablation_x.json").exists()
    assert [path.name for path in work.rglob("*.md")] == (["ablation.md"] if pages else [])
    assert any(work.iterdir()) == pages


@pytest.mark.parametrize("pages", [False, True])
def test_so_does_the_check_of_the_zoo(tmp_path, monkeypatch, pages):
    monkeypatch.chdir(tmp_path)
    options = ["--markdown", "pages"] if pages else []
    assert app(["lab", "check", "--no-train", "--runs", "runs", "--results", "results", *options]) == 0
    assert (tmp_path / "results" / "zoo_check.json").exists()
    assert [path.name for path in tmp_path.rglob("*.md")] == (["zoo_check.md"] if pages else [])
