"""Networks as people write them: right to 1e-3, or refused in a sentence whose advice works."""

import pytest
from foreign_case import run
from foreign_cases import CASES, PAGE_TOOL, tool

MOST_REFUSED = 10
WRITTEN = {cells[0]: cells for cells in tool(PAGE_TOOL).rows_on_page()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_or_refused(case):
    """The figures are the twin's, and docs/foreign.md says what was found; the size of rounding is not compared."""
    outcome = run(case)
    assert WRITTEN.get(case.name, ())[:-1] == tool(PAGE_TOOL).row(outcome)[:-1], "run python tools/foreign_table.py"


def test_there_are_enough_and_few_are_refused():
    assert len({case.name for case in CASES}) == len(CASES) >= 40
    assert sum(bool(case.refused) for case in CASES) <= MOST_REFUSED
    assert all(case.guards.endswith(".") for case in CASES)
