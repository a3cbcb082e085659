"""From the presets to the claims: runs made up for every cell of the grids, then audits, studies and rules as they are.

So a label, an audit's name or a study that a rule reads and no preset makes is found here, before any run is trained.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from claim_builders import NOT, NOT_RUN, PARTLY, REPRODUCED, SEEDS
from made_record import SOURCE, make_record, otherwise, published, tool
from second_computation import SECOND
from test_second_computation import compared

from walkback.lab.evidence.claim import Decided
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.table import decide

pytestmark = pytest.mark.slow  # it makes up a thousand runs, and studies them twice
SOURCED = [f"C{number:02d}" for number in range(1, 44) if number != 40]
"""All but CIFAR-100, of which no preset is."""
IN_PART = {"C10", "C14", "C17", "C18", "C19", "C24", "C26", "C30"}
"""Of networks that are all alike: (c) fires on all; Γ is positive, and too large; what must not fire does not; …"""


class Made(NamedTuple):
    """A record that was made up, and the claims decided from it."""

    results: Path
    decided: dict[str, Decided]


def made(results, figures_of):
    make_record(results, figures_of)
    return Made(results, {d.claim.id: d for d in decide(Results(results))})


@pytest.fixture(scope="module")
def as_published(tmp_path_factory):
    return made(tmp_path_factory.mktemp("published"), published)


@pytest.fixture(scope="module")
def all_alike(tmp_path_factory):
    return made(tmp_path_factory.mktemp("otherwise"), otherwise)


def test_a_record_as_published_reproduces_every_claim(as_published):
    found = as_published.decided
    differ = {claim: (found[claim].status, found[claim].outcome.fails) for claim in SOURCED
              if found[claim].status is not REPRODUCED}  # fmt: skip
    assert not differ
    assert found["C40"].status is NOT_RUN
    assert all(found[claim].rows for claim in SOURCED if claim not in ("C11", "C43"))


def test_networks_that_are_all_alike_reproduce_none(all_alike):
    found = {claim: d.status for claim, d in all_alike.decided.items() if claim in SOURCED}
    assert found.pop("C11") is REPRODUCED  # untrained networks are as published here too
    assert {claim for claim, status in found.items() if status is PARTLY} == IN_PART
    assert {claim for claim, status in found.items() if status is not NOT} == IN_PART


@pytest.mark.parametrize("claim", sorted(SECOND))
@pytest.mark.parametrize("record", ["as_published", "all_alike"])
def test_the_second_computation_tells_results_apart(claim, record, request):
    """Status and figures, on records where every one of the ten claims is decided, and not alike on both."""
    record = request.getfixturevalue(record)
    status, figures = SECOND[claim](record.results)
    assert status == record.decided[claim].status.value
    compared(claim, record.decided[claim].measured, figures)


def test_two_seeds_of_three_decide_nothing(as_published, tmp_path):
    """The same record without one seed: every claim on three seeds of the source's methods waits for it."""
    (tmp_path / "runs").mkdir()
    for path in (as_published.results / "runs").glob("*.json"):
        if json.loads(path.read_text())["config"]["seed"] != SEEDS[-1]:
            shutil.copy(path, tmp_path / "runs")
    list(tool("record.py")["audits"](tmp_path))
    assert (tmp_path / f"audit_{SOURCE}.json").exists()
    found = {d.claim.id: d for d in decide(Results(tmp_path)) if d.claim.id in SOURCED}
    assert {claim for claim, d in found.items() if d.status is not NOT_RUN} == set()
    assert "2 of 3 seeds of dfa" in found["C02"].measured
    assert "9 of 10 seeds" in found["C39"].measured
