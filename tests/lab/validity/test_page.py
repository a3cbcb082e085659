"""What docs/VALIDITY.md says of dates, of names and of what is meant for a fault, against the records."""

from __future__ import annotations

import gzip
import json
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from walkback.lab.validity.conditions import CONDITIONS, FAULTS, condition_named
from walkback.lab.validity.fitting import CANDIDATES
from walkback.lab.validity.history import ASIDE, FIRST_HELD, THRESHOLDS_AT
from walkback.lab.validity.opening import openings
from walkback.lab.validity.quantities import QUANTITIES
from walkback.lab.validity.scoring import meant_letters
from walkback.lab.validity.table import read_table
from walkback.protocol.diagnostics.known import letters

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "validity"
THRESHOLDS = "src/walkback/protocol/panels/calibrated.json"


def records_of(condition):
    path = RESULTS / "records" / f"held_{condition}.jsonl.gz"
    return [json.loads(line) for line in gzip.open(path, "rt", encoding="utf-8")]


def test_thresholds_were_fixed_before_a_network_was_held():
    made = [record["stamp"]["date"] for condition in CONDITIONS for record in records_of(condition)]
    assert min(map(datetime.fromisoformat, made)) == datetime.fromisoformat(FIRST_HELD)
    first = openings(RESULTS)[0]
    order = [THRESHOLDS_AT[1], FIRST_HELD, first["date"]]
    assert sorted(order, key=datetime.fromisoformat) == order


def test_no_threshold_has_changed_since():
    ended = subprocess.run(
        ["git", "show", f"{THRESHOLDS_AT[0]}:{THRESHOLDS}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        pytest.skip("the history is not here")
    now = json.loads((ROOT / THRESHOLDS).read_text(encoding="utf-8"))
    assert json.loads(ended.stdout)["deciders"] == now["deciders"]
    when = subprocess.run(
        ["git", "show", "-s", "--format=%cI", THRESHOLDS_AT[0]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert datetime.fromisoformat(when.stdout.strip()) == datetime.fromisoformat(THRESHOLDS_AT[1])


def test_eight_of_the_ten_that_were_made_again_count():
    """The other two are not what they were made to be."""
    _, second, *_ = openings(RESULTS)
    again = [r for r in records_of("broken_reference") if r["stamp"]["date"] > openings(RESULTS)[0]["date"]]
    counted = {row.id for row in read_table(RESULTS / "held.jsonl")}
    assert len(again) == 10
    assert sum(record["id"] in counted for record in again) == 8
    assert all(record["truth"]["holds"] == (record["id"] in counted) for record in again)
    assert "Of the ten, 8" in ASIDE[second["date"]]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_meant_for_a_fault_holds_every_candidate_of_the_fit(fault):
    meant = set(meant_letters(fault))
    alone = [candidate for candidate in CANDIDATES if len(candidate.diagnostics) == 1]
    assert {c.letters[0] for c in alone if c.meant_for(fault)} == meant - {"b", "d"}  # these keep their thresholds
    assert bool(meant) == bool(condition_named(fault).found_by)


def test_the_page_calls_a_diagnostic_by_its_letter_and_its_name():
    page = (ROOT / "docs" / "VALIDITY.md").read_text(encoding="utf-8").replace("\\", "")
    assert [q.shown for q in QUANTITIES if f"| {q.shown} |" not in page] == []
    tables = [line for line in page.splitlines() if line.startswith("|")]
    plain = {name for name in letters() if "_" in name}
    assert [name for name in plain if any(name in line for line in tables)] == []
