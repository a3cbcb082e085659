"""What is generated from `results/` is what stands in `results/` and `docs/`: a stale page fails here."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from walkback.lab.evidence.results import Results
from walkback.lab.evidence.table import decide, markdown
from walkback.lab.runs.verbs import todays
from walkback.lab.studies import STUDIES
from walkback.lab.studies.audited import load_audit
from walkback.watch.trace_line import rounded

ROOT = Path(__file__).parents[3]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
STAMPED = {"date", "commit", "versions"}
ANSWERS = [(name, path) for name in STUDIES for path in STUDIES.load(name).files(RESULTS)]


def test_the_page_of_evidence_is_up_to_date():
    expected = markdown(decide(Results(RESULTS)), DOCS / "evidence_notes", Results(RESULTS), "../results")
    assert (DOCS / "EVIDENCE.md").read_text() == expected, "run: walkback lab evidence --write docs/EVIDENCE.md"


def test_every_audit_is_of_the_runs_on_record(monkeypatch):
    """Runs that arrived since are one command away."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = runpy.run_path(str(ROOT / "tools" / "record.py"))
    assert tool["outdated_audits"](RESULTS) == [], "run: make record"


def test_the_headline_of_the_readme_is_of_the_record(monkeypatch):
    """Once every run of it is there; until then README has another picture."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = runpy.run_path(str(ROOT / "tools" / "headline.py"))
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page.count(tool["BEGIN"]) == page.count(tool["END"]) == 1
    if tool["missing_runs"](RESULTS):
        assert str(tool["PICTURE"]) not in page
    else:
        assert page == tool["with_headline"](page, RESULTS), "run: make record"
        assert (ROOT / tool["PICTURE"]).exists()


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_of_a_study_is_up_to_date(name):
    study = STUDIES.load(name)
    page = DOCS / "studies" / f"{study.stem}.md"
    if study.files(RESULTS):
        assert page.read_text() == study.page(RESULTS).markdown(), (
            f"run: walkback lab study {name} --markdown docs/studies"
        )
    else:
        assert not page.exists(), f"{page} has nothing behind it"


@pytest.mark.parametrize(("name", "path"), ANSWERS, ids=[path.name for _, path in ANSWERS])
def test_an_answer_follows_from_its_audit(name, path, monkeypatch):
    monkeypatch.chdir(ROOT)
    stored = json.loads(path.read_text())
    made = STUDIES.load(name).run(load_audit(Path(stored["source"])))
    stored["command"] = todays(stored["command"])  # answers of walkback 0.1 keep the verb that they were asked by
    # The last digits are those of the libraries behind a quantile.
    answered, recorded = (
        {k: rounded(v, 12) for k, v in answer.items() if k not in STAMPED} for answer in (made, stored)
    )
    assert answered == recorded, f"run: {stored['command']}"


def test_results_stay_small():
    """So that a clone stays quick, however many runs there are: no weights, no figures, no digit too many."""
    sizes = [path.stat().st_size for path in (RESULTS / "runs").iterdir()]
    assert max(sizes) < 150_000
    assert sum(sizes) / len(sizes) < 40_000  # a run of 100 epochs with its credit tested has 80,000
    assert sum(path.stat().st_size for path in RESULTS.glob("*.json")) < 5_000_000
