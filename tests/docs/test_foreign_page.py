"""docs/foreign.md lists every case of tests/foreign with its outcome; what was found is held where the cases run."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "foreign"), str(TESTS / "protocol")]

from foreign_cases import CASES, PAGE_TOOL, tool  # noqa: E402


def test_names_and_outcomes_are_those_of_the_cases():
    page = tool(PAGE_TOOL)
    expected = [(case.name, case.guards, page.said(case)) for case in CASES]
    assert [cells[:3] for cells in page.rows_on_page()] == expected, "run python tools/foreign_table.py"


def test_the_counts_are_those_of_the_rows():
    page = tool(PAGE_TOOL)
    outcomes = [cells[2] for cells in page.rows_on_page()]
    refused = outcomes.count("refused, then right")
    assert page.counted(len(outcomes), refused) in page.PAGE.read_text(encoding="utf-8")


def test_every_refusal_is_quoted():
    text = tool(PAGE_TOOL).PAGE.read_text(encoding="utf-8")
    for case in CASES:
        assert (f"\n- **{case.name}**: " in text) == bool(case.refused)
