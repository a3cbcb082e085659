"""What README and the page of verdicts say of the bench is what its tables hold."""

import re
from pathlib import Path

import pytest

from walkback.lab.validity.alarms import causes
from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.page import PUBLISHED
from walkback.lab.validity.rates import Rate
from walkback.lab.validity.scoring import flagged, healthy, sensitivities, without_bp
from walkback.lab.validity.shipped import PANEL
from walkback.lab.validity.table import read_table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def held():
    return read_table(ROOT / "results" / "validity" / "held.jsonl")


def words_of(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", ["README.md", "docs/verdicts.md"])
def test_what_flags_healthy_networks(held, page):
    every, others = flagged(healthy(held), PUBLISHED), flagged(without_bp(held), PUBLISHED)
    text = words_of(page)
    assert f"{every.hits} of {every.of} healthy networks" in text
    assert re.search(rf"{every.hits - others.hits} of (them|the {every.hits} were) trained by backpropagation", text)
    told = [(c, re.search(rf"\({c.letter}\)(?: flags)? {c.fires}\b", text)) for c in causes(held, PUBLISHED)]
    assert [cause.letter for cause, found in told if found is None] == []


def test_every_false_alarm_has_a_cause(held):
    found = causes(held, PUBLISHED)
    assert sum(cause.alone for cause in found) <= flagged(healthy(held), PUBLISHED).hits
    assert sum(cause.fires for cause in found) >= flagged(healthy(held), PUBLISHED).hits
    assert all(cause.alone <= cause.fires and cause.by_bp <= cause.fires for cause in found)


def test_what_is_found_and_missed(held):
    text = words_of("README.md")
    counts = {rule: sensitivities(held, rule) for rule in (PUBLISHED, PANEL)}
    meant = [fault for fault in FAULTS if condition_named(fault).found_by]
    total = {rule: Rate(*(sum(c[f][i] for f in meant) for i in (0, 1))) for rule, c in counts.items()}
    assert f"finds {total[PUBLISHED].hits} of {total[PUBLISHED].of} with a fault" in text
    assert f"finds {total[PANEL].hits} of the {total[PANEL].of}" in text
    for fault in ("permuted_labels", "slow_growth"):
        rate = counts[PANEL][fault]
        assert (
            f"{rate.of - rate.hits} of the {rate.of} networks with permuted labels" in text
            or fault != "permuted_labels"
        )
        assert f"{rate.of - rate.hits} of the {rate.of} with slow growth" in text or fault != "slow_growth"
    slow = [counts[rule]["slow_growth"].hits for rule in (PANEL, PUBLISHED)]
    of = counts[PANEL]["slow_growth"].of
    assert slow[0] == slow[1] - 1
    assert f"finds one slow-growth network fewer ({slow[0]} of {of}, against {slow[1]})" in text


def test_on_how_many_networks_thresholds_were_fitted():
    fitted_on = len(read_table(ROOT / "results" / "validity" / "fit.jsonl"))
    text = words_of("README.md")
    assert f"fitted on {fitted_on} other networks of the bench" in text
    assert f"fitted on {fitted_on} networks of the bench" in text


def test_how_many_networks_the_bench_has(held):
    fitted_on = read_table(ROOT / "results" / "validity" / "fit.jsonl")
    assert f"The {len(held) + len(fitted_on):,} networks" in words_of("docs/glossary.md")
