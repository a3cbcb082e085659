"""Every verdict in `results/` is what the April 2026 panel says of its measurements today, word for word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from walkback.lab.evidence.deciding import PUBLISHED
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.schema import load_record

RESULTS = Path(__file__).parents[3] / "results"


def reports_on_record():
    for path in sorted((RESULTS / "runs").glob("*.json")):
        report = json.loads(path.read_text())["report"]
        if report is not None:
            yield path.name, report
    for path in sorted(RESULTS.glob("audit_*.json")):
        for report in json.loads(path.read_text())["reports"]:
            yield f"{path.name}: {report['method_name']} {report['seed']}", report


@pytest.fixture(scope="module")
def record():
    return list(reports_on_record())


def said_today(stored):
    """The record's verdict and states, judged from its measurements and thresholds alone."""
    read = load_record(DiagnosticReport, stored, "the record")
    measured = Measurements(**{name: getattr(read, name) for name in Measurements.model_fields})
    require_all = stored["verdict"].startswith("incomplete")
    return judge(measured, read.thresholds, panel="april2026", require_all=require_all)


def test_every_verdict_and_reading_on_record_stands(record):
    assert len(record) > 400
    differ = {}
    for name, stored in record:
        report = said_today(stored)
        states = {reading["letter"]: reading["state"] for reading in stored["readings"]}
        assert set(PUBLISHED) <= set(states), name
        assert all(states[letter] != "FIRE" for letter in set(states) - set(PUBLISHED)), name  # they never fire
        found = {letter: report.reading(letter).state.value for letter in states}
        if (states["c"], found["c"]) == ("PASS", "UNDECIDED"):  # an interval that says nothing is no pass any more
            found["c"] = "PASS"
        if (report.verdict, report.verdicts["april2026"].words, found) != (
            stored["verdict"],
            stored["verdict"],
            states,
        ):
            differ[name] = (stored["verdict"], report.verdict, states, found)
    assert not differ


def test_a_verdict_that_were_another_would_be_seen(record):
    """The test above can fail: a record whose growth is made to explode no longer says what it says."""
    _, stored = next((name, r) for name, r in record if r["verdict"] == "trustworthy")
    norms = [norm * 1e3**site for site, norm in enumerate(stored["residual_norms"])]
    changed = {**stored, "residual_norms": norms, "residual_norm_intervals": None}
    assert said_today(changed).verdict == "needs walk-back: residual stream exploded"
