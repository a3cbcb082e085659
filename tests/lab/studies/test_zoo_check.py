import json
from pathlib import Path

import pytest
from tiny_runs import assert_can_be_built

from walkback.lab.studies.zoo_check import RECIPES, Recipe, compare, page

ROOT = Path(__file__).parents[3]

PROTOTYPE = Recipe("prototype", {"method": "dfa", "epochs": 1}, (0.3, 0.3), growth=(100, 200), fires="ab")


def line(fired=()):
    """A line of a trace on which these fire, whatever it says itself."""
    return {
        "residual_norms": [1.0, 150.0 if "a" in fired else 1.1], "fired": ["a", "b"],
        "bp_grad_norms": [1e-3, 1e-9 if "b" in fired else 1e-3],
    }  # fmt: skip


def result(accuracy=0.31, norms=(1.0, 150.0), fired=("a", "b")):
    return {
        "accuracy": accuracy,
        "trace": [line(), line(fired)],
        "report": {"residual_norms": list(norms), "bp_grad_norms": [1e-3, 1e-9], "alignment": None},
    }


def row(measured):
    return compare(PROTOTYPE, PROTOTYPE.configs()[0], measured)


def test_a_run_like_its_prototype_is_of_the_same_order():
    assert row(result()).differs == ()


def test_a_run_that_diverged_or_was_not_measured_differs_and_is_told():
    diverged = result() | {
        "report": {"residual_norms": ["NaN", "NaN"], "bp_grad_norms": ["NaN", "NaN"], "alignment": None}
    }
    for found in (result() | {"report": None}, diverged):
        assert "growth" in row(found).differs


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"accuracy": 0.36}, "accuracy"),
        ({"norms": (1.0, 9.0)}, "growth"),
        ({"norms": (1.0, 2001.0)}, "growth"),
        ({"fired": ("a",)}, "fires (a, not ab)"),
        ({"fired": ()}, "fires (nothing, not ab)"),
    ],
)
def test_what_differs_is_named(changes, named):
    assert row(result(**changes)).differs == (named,)


def test_a_run_that_is_not_finished_is_a_row_without_figures():
    assert row(None).measured == {}


def test_every_recipe_is_a_run_that_can_be_made():
    configs = [config for recipe in RECIPES for config in recipe.configs()]
    assert len({config.run_id for config in configs}) == len(configs)
    assert_can_be_built(configs)


def test_the_page_on_record_is_drawn_from_its_json():
    on_record = json.loads((ROOT / "results" / "zoo_check.json").read_text())
    assert (ROOT / "docs" / "studies" / "zoo_check.md").read_text() == page(on_record).markdown()


def test_the_table_on_record_follows_from_the_runs_on_record():
    rows = {row["run_id"]: row for row in json.loads((ROOT / "results" / "zoo_check.json").read_text())["rows"]}
    for recipe in RECIPES:
        for config in recipe.configs():
            run = json.loads((ROOT / "results" / "runs" / f"{config.run_id}.json").read_text())
            again = compare(recipe, config, run)
            assert again.measured == rows[config.run_id]["measured"]
            assert list(again.differs) == rows[config.run_id]["differs"]
