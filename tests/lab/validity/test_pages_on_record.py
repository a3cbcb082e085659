"""What is committed of the bench follows from its records: the page, its figure, the scores and the panel's rates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from walkback.lab.validity.bench import RECORDS, Bench
from walkback.lab.validity.page import IMAGE
from walkback.lab.validity.runner import Folder
from walkback.protocol.panels.calibrated import HERE, RATES_FILE, THRESHOLDS_FILE

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "validity"


@pytest.mark.slow  # the rule is fitted again without each group
def test_what_is_committed_follows_from_the_records(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results", ignore=shutil.ignore_patterns(RECORDS, "scores.json"))
    (tmp_path / "panel").mkdir()
    shutil.copy(THRESHOLDS_FILE, tmp_path / "panel")
    bench = Bench(Folder(tmp_path / "runs", RESULTS / RECORDS), tmp_path / "results", tmp_path / "panel")
    tables = bench.tables()
    assert bench.write_rates(tables) is not None
    docs = tmp_path / "docs"
    docs.mkdir()
    bench.write_page(docs, bench.page(tables), tables)
    for made, committed in (
        (tmp_path / "panel" / RATES_FILE.name, HERE / RATES_FILE.name),
        (tmp_path / "results" / "scores.json", RESULTS / "scores.json"),
        (docs / "VALIDITY.md", ROOT / "docs" / "VALIDITY.md"),
        (docs / IMAGE, ROOT / "docs" / IMAGE),
    ):
        assert made.read_text("utf-8") == committed.read_text("utf-8"), f"make {committed.name} again: --score"
