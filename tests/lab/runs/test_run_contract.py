"""Every method on every architecture, by the registries: a new row is tested the moment it is added."""

from __future__ import annotations

import pytest
from tiny_runs import Snapshot, assert_same_run, pairs, tiny

from walkback.lab.registry import METHODS
from walkback.lab.runs import aftermath, checkpoint, depth_tests, functional_tests
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(aftermath, "NULL_DRAWS", 2)
    monkeypatch.setattr(depth_tests, "DRAWS", 1)
    monkeypatch.setattr(functional_tests, "SAMPLES", 16)


@pytest.mark.parametrize(("method", "architecture"), pairs())
def test_trains_saves_loads_resumes_and_is_diagnosed(method, architecture, tmp_path):
    config = tiny(method, architecture)
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    finished = train_or_resume(config, whole, Snapshot(whole.root, cut.root, epoch=1))
    assert_same_run(finished, train_or_resume(config, cut))

    result = finished.result()
    assert [line["epoch"] for line in result["trace"]] == [0, 1, 2]
    assert result["unmeasured"] == ""
    sites, kind = len(result["report"]["residual_norms"]), METHODS.load(method)
    gradients = ("bp_grad_norms", "site_stabilities", "drift_shares") if kind.answers_by_head() else ()
    for line in result["trace"]:
        assert "unmeasured" not in line
        for name in ("residual_norms", *gradients, *(["alignment"] if kind.has_credit else [])):
            assert len(line[name]) == sites
    # Something was learnt: the losses of the two epochs differ, and so do the untrained and the trained network.
    assert result["trace"][1]["loss"] != result["trace"][2]["loss"]
    assert result["trace"][0]["residual_norms"] != result["trace"][2]["residual_norms"]
    alignment = result["report"]["alignment"]
    if not kind.has_credit:
        assert alignment["unavailable"].startswith("by design: ")
        assert alignment["sites"] is None
        assert result["functional"]["unmeasured"] == f"by design: {kind.gamma}"
        return
    assert result["functional"]["unmeasured_sites"] == {}
    assert len(result["functional"]["hidden_norm"]) == sites
    assert (alignment["null"] is not None) == hasattr(kind, "redraw")
    if kind.no_null:
        assert alignment["no_null"] == kind.no_null


def test_methods_and_freezing_start_from_the_same_weights_and_batches(tmp_path):
    store = RunStore(tmp_path)
    runs = [tiny("bp", epochs=0), tiny("dfa", epochs=0), tiny("dfa", epochs=0, freezing="blocks")]
    norms = [train_or_resume(config, store).result()["trace"][0]["residual_norms"] for config in runs]
    assert norms[0] == norms[1] == norms[2]


@pytest.mark.parametrize("last", [1, 2])
@pytest.mark.parametrize("method", [method for method, architecture in pairs() if architecture == "resmlp"])
def test_on_a_ladder_the_last_blocks_learn_and_a_cut_run_goes_on(method, last, tmp_path):
    options = {"architecture_options": {"width": 12, "depth": 3}, "freezing": f"ladder:{last}"}
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    trained = train_or_resume(tiny(method, **options), whole, Snapshot(whole.root, cut.root, epoch=1))
    assert_same_run(trained, train_or_resume(tiny(method, **options), cut))

    untrained = train_or_resume(tiny(method, **options, epochs=0), whole)
    before, after = (checkpoint.newest(run.checkpoints).part("model") for run in (untrained, trained))
    moved = {name for name, value in before.items() if not value.equal(after[name])}
    learning = tuple(f"blocks.{index}." for index in range(3 - last, 3))
    parts = ("stem.", "head.") if METHODS.load(method).answers_by_head() else ("stem.",)
    assert moved == {name for name in before if name.startswith((*parts, *learning))}
    assert trained.result()["unmeasured"] == ""


def test_frozen_blocks_stay_and_the_rest_learns(tmp_path):
    store = RunStore(tmp_path)
    untrained = train_or_resume(tiny(freezing="blocks", epochs=0), store)
    trained = train_or_resume(tiny(freezing="blocks"), store)
    before, after = (checkpoint.newest(run.checkpoints).part("model") for run in (untrained, trained))
    moved = {name for name, value in before.items() if not value.equal(after[name])}
    assert moved
    assert not any(name.startswith("blocks.") for name in moved)
    assert {name.split(".")[0] for name in moved} == {"stem", "head"}
