"""Ten claims, drawn at random, come out the same by a computation that shares no code with the page's.

This file and `second_computation.py` read `results/` and docs/EVIDENCE.md as text and JSON, and import nothing of
walkback. A claim whose runs are not all on record has to be `not run` on the page. That the second computation can
tell results apart is shown by test_presets_to_claims.py, on records that were made up whole.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from second_computation import SECOND, Missing

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"
DRAWN = json.loads((Path(__file__).parent / "drawn_claims.json").read_text())


def on_the_page(claim):
    """The status and the measured figures of a claim, as a reader sees them."""
    page = (ROOT / "docs" / "EVIDENCE.md").read_text(encoding="utf-8")
    section = page.partition(f'<a id="{claim.lower()}"></a>')[2].partition("<a id=")[0]
    status = re.search(r"^- status: \*\*(.+?)\*\*$", section, re.MULTILINE)[1]
    measured = re.search(r"^- measured: (.+)$", section, re.MULTILINE)[1]
    return status, measured.replace("\\", "")


def figures_in(words):
    """Every number that stands for itself in a line: not the 2 of `resmlp_d256`, nor the 0 of `S0`."""
    return [float(number) for number in re.findall(r"(?<![\w.])[+\-−]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])", words)]


def compared(claim, measured, figures):
    """The line's numbers against the second computation's; three digits are shown."""
    if claim == "C30":
        counts = [(int(a), int(b)) for a, b in re.findall(r"(\d+) of (\d+)", measured)]
        assert counts == figures
        return
    if claim == "C10":
        measured = re.sub(r"\bS(\d)", r"\1", measured)
    if claim == "C18":
        measured = measured.replace("d = 256", "256")
    assert figures_in(measured.replace("−", "-")) == pytest.approx(figures, rel=6e-3, abs=1e-12), measured


def second(claim):
    """The second computation's status and figures; no figures where runs are missing."""
    try:
        return SECOND[claim](RESULTS)
    except Missing:
        return "not run", None


def test_the_draw_is_that_of_its_seed():
    tool = runpy.run_path(str(ROOT / "tools" / "draw_claims.py"))
    assert {"seed": tool["SEED"], "drawn": tool["draw"]()} == DRAWN
    assert len(set(DRAWN["drawn"])) == 10
    assert set(SECOND) == set(DRAWN["drawn"])


@pytest.mark.parametrize("claim", DRAWN["drawn"])
def test_a_second_computation_comes_to_the_same(claim):
    status, measured = on_the_page(claim)
    expected, figures = second(claim)
    assert status == expected
    if figures is not None:
        compared(claim, measured, figures)


def test_no_file_of_the_second_computation_imports_walkback():
    for name in ("second_computation.py", "test_second_computation.py"):
        source = (Path(__file__).parent / name).read_text()
        imported = re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE)
        assert set(imported) <= {
            "__future__",
            "json",
            "numpy",
            "pathlib",
            "pytest",
            "re",
            "runpy",
            "second_computation",
        }
