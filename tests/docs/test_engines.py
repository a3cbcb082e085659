"""The table of engines names tests that are there, and says why where something was not run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "engines.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]


def test_every_cell_names_a_test_or_a_reason():
    assert len(ROWS) > 20
    for feature, *cells in ROWS:
        assert len(cells) == 3, feature
        for cell in cells:
            named = re.findall(r"`([^`]+\.py)`", cell)
            for name in named:
                assert (ROOT / "tests" / name).is_file(), (feature, name)
            assert named or re.search(r"not run, because|not there:|the same code|\(BENCHMARKS.md\)", cell), feature
