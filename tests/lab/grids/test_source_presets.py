"""The grids of the source study's definitions hold what was settled before any of their runs."""

from __future__ import annotations

import pytest

from walkback.lab.grids.presets import PRESETS, preset
from walkback.lab.runs.source_recipe import source_options

LOCAL = ["dfa", "fa_block", "state_bridge", "credit_bridge"]
NAMES = [name for name in PRESETS if name.startswith("source")]


def labels(grid):
    return [row.label for row in grid.rows]


def test_the_main_audit_and_ep_are_as_long_as_the_published_ones():
    (main,), (ep,) = preset("source"), preset("source_ep")
    assert (main.name, labels(main), main.baselines) == ("source_resmlp_d256_100ep", LOCAL, True)
    assert (ep.name, labels(ep), ep.baselines) == ("source_ep", ["ep"], True)
    assert {(grid.epochs, grid.published_epochs, grid.seeds) for grid in (main, ep)} == {(100, 100, (42, 123, 456))}


def test_dfa_without_a_norm_and_without_skips():
    (bare,), (skipless,) = preset("source_no_norm"), preset("source_no_skip")
    assert (bare.name, skipless.name) == ("source_no_terminal_norm", "source_no_skip")
    assert bare.settings["architecture_options"] == {"terminal_norm": False}
    assert skipless.settings["architecture_options"] == {"residual_add": False, "w2_std": 0.5}
    assert {(tuple(labels(grid)), grid.epochs, grid.baselines) for grid in (bare, skipless)} == {(("dfa",), 100, False)}


def test_causes_differ_in_one_setting_from_the_runs_of_the_claim():
    (bare,), (causes,) = preset("source_no_norm"), preset("causes_no_norm")
    shared = ("epochs", "settings", "architecture", "data", "baselines")
    assert all(getattr(causes, name) == getattr(bare, name) for name in shared)
    (plain,) = bare.rows
    for row in causes.rows:
        assert len(dict(set(row.options.items()) ^ set(plain.options.items()))) == 1


def test_the_penalty_begins_with_the_strengths_that_most_claims_are_on():
    (grid,) = preset("source_penalty")
    strong, weak = ([f"{method}:penalty={strength}" for method in LOCAL] for strength in ("0.01", "0.0001"))
    assert (grid.name, grid.epochs, grid.baselines) == ("source_penalty_resmlp_d256", 30, True)
    assert labels(grid) == [*strong, *weak, "dfa", "dfa:penalty=0.001"]
    strengths = [row.options.get("penalty", 0.0) for row in grid.rows]
    assert strengths == [0.01] * 4 + [0.0001] * 4 + [0.0, 0.001]


def test_the_assays():
    (random,), (student,), (ladder,) = map(preset, ("source_random_targets", "source_student_net", "source_ladder"))
    assert (labels(random), random.epochs, random.baselines) == ([*LOCAL, "ep"], 5, False)
    assert random.settings == {"targets": "random", "schedule": "constant"}
    assert (student.architecture, student.data, student.epochs) == ("student_net", "synthetic_teacher", 80)
    assert student.settings["architecture_options"] == {"activation": "phi", "activation_alpha": 1.0}
    assert set(labels(ladder)) == {f"{m} ladder {k}" for m in ("bp", "dfa", "fa_block") for k in (1, 2, 3, 4)}
    assert ladder.baselines  # which are k = 0
    freezing = {row.label: row.settings["freezing"] for row in ladder.rows if row.method == "dfa"}
    assert freezing == {f"dfa ladder {k}": f"ladder:{k}" for k in (1, 2, 3)} | {"dfa ladder 4": "none"}


def test_depth_has_ten_seeds_where_some_of_ten_fail():
    two, more = preset("source_depth")
    assert (two.name, labels(two), two.baselines) == ("source_depth_2", ["fa_block depth 2"], True)
    assert two.seeds == (42, 123, 456, 1, 2, 3, 4, 5, 6, 7)
    assert labels(more) == [f"{method} depth {depth}" for depth in (4, 8) for method in ("dfa", "fa_block")]
    assert (more.baselines, more.seeds) == (False, (42, 123, 456))
    assert {(grid.epochs, grid.published_epochs) for grid in (two, more)} == {(30, 100)}
    assert {row.settings["architecture_options"]["width"] for grid in (two, more) for row in grid.rows} == {512}


def test_the_study_s_small_cnn():
    (grid,) = preset("source_small_cnn")
    assert grid.settings["architecture_options"] == {"pool_first": False, "channels": (16, 32, 64)}
    assert (labels(grid), grid.epochs) == (["dfa", "state_bridge", "credit_bridge", "bp"], 30)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_as_the_source_defines_its_method(name):
    for row in (row for grid in preset(name) for row in grid.rows):
        assert source_options(row.method).items() <= row.options.items()
        assert set(row.options) - set(source_options(row.method)) <= {"penalty"}


def test_the_rungs_of_a_ladder_share_their_baseline():
    (grid,) = preset("source_ladder")
    cells = [cell for cell in grid.cells() if cell.config.seed == 42]
    for method in ("bp", "dfa", "fa_block"):
        assert len({cell.baseline.run_id for cell in cells if cell.config.method == method}) == 1
