"""The page on what walkback withstands is that of the records, and the page on security names tests that exist."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "reliability.py"))
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "security.md").read_text())))


def test_the_page_is_that_of_the_records():
    assert (ROOT / "docs" / "RELIABILITY.md").read_text() == TOOL["page"]().markdown(), "run make reliability"


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_every_test_that_the_page_on_security_names_is_there(file, test):
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_row_names_a_test():
    rows = [line for line in (ROOT / "docs" / "security.md").read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 8
    assert all("::test_" in row for row in rows)


def test_what_was_not_run_in_full_is_said():
    assert TOOL["_of"](3000, 100_000).startswith("3,000 of 100,000")
    assert TOOL["_of"](100_000, 100_000) == "100,000"
    sample = {"made": 40, "all_there_are": 11_000, "modules": ["protocol/numerics.py"]}
    assert "a sample of 40" in TOOL["_sampled"](sample)
    assert "of 11,000 in all" in TOOL["_sampled"](sample)
    assert TOOL["_sampled"](sample | {"made": 11_000}) == "11,000"


@pytest.mark.parametrize("name", ["fuzz", "torture", "mutants", "bench_load"])
def test_every_record_has_its_date_commit_and_command(name):
    found = json.loads((ROOT / "results" / f"{name}.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert re.fullmatch(r"[0-9a-f]{40}\+?", found["commit"])
    assert found["command"].startswith(("make ", "python benchmarks/"))


def test_mutants_that_survived_are_all_listed_and_stay_in_the_count():
    found = json.loads((ROOT / "results" / "mutants.json").read_text())
    assert found["made"] == found["killed"] + found["timeouts"] + found["survived"]
    assert len(found["survivors"]) == found["survived"]
    assert found["share_killed"] == pytest.approx((found["killed"] + found["timeouts"]) / found["made"], abs=1e-4)
    called = json.loads((ROOT / "tools" / "equivalent_mutants.json").read_text())
    assert all(each["reason"] and (ROOT / each["module"]).is_file() for each in called)


def test_nothing_on_record_came_out_wrong():
    assert json.loads((ROOT / "results" / "torture.json").read_text())["wrong"] == []
