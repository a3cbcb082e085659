"""A method hears how far its run is, and goes on from a checkpoint as if it had never stopped."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import InterruptAfter, assert_same_run, tiny

from walkback.lab.runs import aftermath, checkpoint, depth_tests
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.lab.zoo.methods.credit_bridge import CreditBridge

EPOCHS = 5
CONFIG = {"method": "credit_bridge", "epochs": EPOCHS, "method_options": {"warm_up": 0.4}}


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(aftermath, "NULL_DRAWS", 2)
    monkeypatch.setattr(depth_tests, "DRAWS", 1)


@pytest.fixture
def heard(monkeypatch):
    """What the methods of this test were told, and whether it was the warm-up at each of their steps."""
    told, steps = [], []
    at, accumulate = CreditBridge.at, CreditBridge.accumulate
    monkeypatch.setattr(CreditBridge, "at", lambda self, share: told.append(share) or at(self, share))
    monkeypatch.setattr(
        CreditBridge, "accumulate", lambda self, x, y: steps.append(self.warming_up) or accumulate(self, x, y)
    )
    return told, steps


def test_the_loop_tells_the_share_around_every_epoch(heard, tmp_path):
    told, steps = heard
    train_or_resume(tiny(**CONFIG), RunStore(tmp_path))
    assert told[0] == 0.0
    around = [share for epoch in range(EPOCHS) for share in (epoch / EPOCHS, (epoch + 1) / EPOCHS)]
    # The draws for the null, at the end, hear the share of the method that they are drawn for.
    assert told[1 : 1 + len(around)] == around
    assert set(told[1 + len(around) :]) == {1.0}
    assert steps == [True] * 2 * 2 + [False] * 3 * 2  # two steps an epoch


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_run_goes_on_to_the_bit_within_the_warm_up_and_at_its_end(epoch, tmp_path):
    config = tiny(**CONFIG)
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, cut, InterruptAfter(epoch))
    assert_same_run(train_or_resume(config, whole), train_or_resume(config, cut))


@pytest.mark.parametrize(("epoch", "warming_up"), [(0, True), (1, True), (2, False), (EPOCHS, False)])
def test_a_checkpoint_brings_back_the_credit_of_its_moment(epoch, warming_up, tmp_path):
    config, store = tiny(**CONFIG), RunStore(tmp_path)
    if epoch < EPOCHS:
        with pytest.raises(KeyboardInterrupt):
            train_or_resume(config, store, InterruptAfter(epoch))
    else:
        train_or_resume(config, store)
    saved = checkpoint.newest(store.run(config).checkpoints)
    run = assemble(config, dataset_of(config).spec)
    saved.restore_networks(run)
    assert saved.epoch == epoch
    assert run.method.warming_up == warming_up


def test_a_run_of_no_epochs_is_at_its_end():
    config = tiny("credit_bridge", epochs=0)
    assert config.done_after(0) == 1.0
    assert not assemble(config, dataset_of(config).spec).method.warming_up


def test_a_method_that_does_not_change_is_told_in_vain():
    run = assemble(tiny("dfa"), dataset_of(tiny("dfa")).spec)
    before = {name: value.clone() for name, value in run.method.state_dict().items()}
    run.method.at(0.5)
    assert all(torch.equal(value, before[name]) for name, value in run.method.state_dict().items())
