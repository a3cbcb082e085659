from __future__ import annotations

import pytest
from tiny_runs import tiny, without_times

from walkback.errors import RunError
from walkback.lab.runs.baselines import finished_report, join, matched_baseline
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.protocol.records import State
from walkback.protocol.thresholds import DiagnosticThresholds


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return RunStore(tmp_path_factory.mktemp("runs"))


def test_the_baseline_is_the_same_run_with_frozen_blocks():
    config = tiny(method_options={"credit_norm": "per_sample"}, learning_rate=3e-3)
    baseline = matched_baseline(config)
    assert baseline is not None
    assert baseline == config.changed(freezing="blocks")
    assert matched_baseline(baseline) is None
    assert matched_baseline(config.changed(freezing="shallow")) is None


def test_the_baseline_of_a_ladder_is_its_foot():
    config = tiny(method_options={"penalty": 0.1})
    assert matched_baseline(config.changed(freezing="ladder:1")) == matched_baseline(config)
    assert matched_baseline(config.changed(freezing="ladder:0")) is None


def test_the_baseline_of_random_targets_has_random_targets():
    config = tiny(targets="random")
    baseline = matched_baseline(config)
    assert baseline == config.changed(freezing="blocks")
    assert baseline.targets == "random"
    assert baseline != matched_baseline(tiny())


def test_a_ladder_is_judged_with_its_baseline_and_says_what_learnt(store):
    config = tiny("bp", freezing="ladder:1", architecture_options={"width": 12, "depth": 4})
    train_or_resume(config, store)
    assert "--freezing blocks" in finished_report(store, config).notes
    frozen = train_or_resume(matched_baseline(config), store).result()
    report = finished_report(store, config)
    assert report.frozen_baseline_acc == frozen["accuracy"]
    assert "Of its 4 blocks only the last learnt, beside stem and head" in report.notes
    assert "No block followed the credit of h_1 to h_2," in report.notes


def test_random_targets_are_told_in_the_report(store):
    config = tiny("dfa", targets="random", epochs=1)
    train_or_resume(config, store)
    notes = finished_report(store, config).notes
    assert "labels drawn at random, anew for every batch" in notes
    assert "--freezing blocks --targets random" in notes


@pytest.mark.parametrize("method", ["bp", "dfa"])
def test_one_baseline_serves_every_penalty_because_it_does_nothing_there(method, store):
    penalised = tiny(method, method_options={"penalty": 0.1})
    assert matched_baseline(penalised) == matched_baseline(tiny(method))
    with_it, without = penalised.changed(freezing="blocks"), tiny(method, freezing="blocks")
    results = [without_times(train_or_resume(config, store).result()) for config in (with_it, without)]
    assert with_it.run_id != without.run_id
    assert results[0]["trace"] == results[1]["trace"]


def test_a_report_waits_for_its_baseline_and_then_has_it(store):
    config = tiny("bp", epochs=3, batch_size=64)
    train_or_resume(config, store)
    alone = finished_report(store, config)
    assert alone.reading("d").state is State.NOT_MEASURED
    baseline = matched_baseline(config)
    assert baseline is not None
    assert baseline.command in alone.notes
    assert "--freezing blocks" in baseline.command

    frozen = train_or_resume(baseline, store).result()
    joined = finished_report(store, config)
    assert joined.frozen_baseline_acc == frozen["accuracy"]
    assert joined.frozen_baseline_samples == frozen["test_samples"] == 539
    margin = 100 * (store.run(config).result()["accuracy"] - frozen["accuracy"])
    assert joined.reading("d").value == pytest.approx(margin)
    assert "For (d)" not in joined.notes
    assert joined.residual_norms == alone.residual_norms
    never = DiagnosticThresholds(frozen_acc_margin_pp=-100)
    assert finished_report(store, config, never).reading("d").state is State.PASS


def test_a_run_under_way_is_compared_with_its_baseline_at_the_same_epoch(store):
    config = tiny("bp", epochs=3, batch_size=64)
    result = train_or_resume(config, store).result()
    report = finished_report(store, config)
    frozen = {"accuracy": 0.9, "test_samples": 10, "trace": [{"accuracy": 0.1}, {"accuracy": 0.2}]}
    assert join(report, result, frozen, epoch=1).frozen_baseline_acc == 0.2
    assert join(report, result, frozen).frozen_baseline_acc == 0.9


def test_a_baseline_says_that_it_is_one(store):
    config = tiny("dfa", freezing="blocks")
    train_or_resume(config, store)
    notes = finished_report(store, config).notes
    assert "(d) does not apply" in notes
    assert "Γ at those sites says nothing of training" in notes


def test_a_run_without_blocks_has_no_report_to_join(store):
    config = tiny(freezing="shallow")
    train_or_resume(config, store)
    with pytest.raises(RunError, match="has no report: freezing 'shallow'"):
        finished_report(store, config)
