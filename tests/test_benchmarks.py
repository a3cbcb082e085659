"""The page of benchmarks is made from what is on record, and marks what misses its limit."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    # Names as plain as these are taken by other modules of the tests.
    for name in ("bench", "ratios"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("bench")


def test_the_page_is_that_of_the_record(bench):
    assert (ROOT / "docs" / "BENCHMARKS.md").read_text() == bench.page().markdown(), (
        "run `python benchmarks/bench.py --page-only`"
    )


def test_a_figure_past_its_limit_is_marked(bench):
    assert bench.Row("x", "y", 1.2, 1.0).cells()[-1] == "missed"
    assert bench.Row("x", "y", 1.0, 1.0).cells()[-1] == "met"
    assert bench.Row("x", "y", 1.2).cells()[-1] == ""
    assert "x (1.200, limit 1)" in bench._missed([bench.Row("x", "y", 1.2, 1.0)])


def test_a_load_that_was_not_run_in_full_says_so(bench):
    row = {"items": 80, "wanted": 1000, "what": "tiny runs", "ratio": 1.6, "limit": 1.5, "killed": 3}
    (told,) = bench.of_load({"rows": {"ray": row | {"large": {"wall_seconds": 2.0}, "before": None}}})
    assert "80 tiny runs, 3 killed (of 1,000 that are meant): 2.0 s" in told.what
    assert told.cells()[-1] == "missed"
    (whole,) = bench.of_load({"rows": {"ray": row | {"items": 1000, "large": {"wall_seconds": 2.0}, "before": None}}})
    assert "meant" not in whole.what


def test_other_results_on_ray_are_not_passed_over(bench):
    rows = {name: {"runs": 4, "cpu_seconds": 1.0} for name in ("loop", "workers1", "workers2")}
    rows |= {"ray1": {"runs": 4, "finished": 3, "same_results": True, "wall_seconds": 1.0}}
    found = {"rows": rows, "overhead_of_scheduling": 0.01, "overhead_limit": 0.05}
    found |= {"two_workers_over_one_wall": 0.5}
    assert "OTHER RESULTS" in bench.of_grid(found)[-1].against
