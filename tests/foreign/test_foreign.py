"""Networks as people write them: right to 1e-3, or refused in a sentence whose advice works."""

import pytest
from foreign_case import run
from foreign_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_or_refused(case):
    run(case)
