import pytest
import torch
from example_files import load

import walkback
from walkback.watch.trace import read_trace

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning warns of its own dependencies


@pytest.fixture(scope="module")
def example():
    return load("04_lightning")


def test_a_real_trainer_is_stopped_early_by_dfa_and_not_by_bp(example, tmp_path):
    ended = example.main(tmp_path)
    epochs, decision = ended["bp"]
    assert (epochs, decision.action) == (8, "continue")
    epochs, decision = ended["dfa"]
    assert epochs < 8
    assert decision.action == "stop"
    assert "residual stream exploded" in decision.reason
    lines = read_trace(tmp_path / "dfa.jsonl")
    assert len([line for line in lines if line.epoch is not None]) == epochs
    assert lines[-1].accuracy == pytest.approx(float(lines[-1].accuracy))
    assert lines[-1].step == epochs * 24


def fit(example, **settings):
    from lightning import Trainer, seed_everything

    from walkback.integrations.lightning import WalkbackCallback

    seed_everything(3, verbose=False)
    model = example.Residual("bp")
    callbacks = [WalkbackCallback(**settings)] if settings else []
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", callbacks=callbacks, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    return trainer, model, callbacks


def test_the_weights_are_the_same_bits_as_without_the_callback(example, tmp_path):
    weights = []
    for settings in ({}, {"every": 5, "trace": tmp_path / "t"}, {"every": 5, "read_training": True}):
        trainer, model, callbacks = fit(example, **settings)
        trainer.fit(model, *example.loaders(1536))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
    assert callbacks[0].monitor.decision.at.step == trainer.global_step


def test_without_validation_it_measures_at_the_end_of_each_epoch(example, tmp_path):
    train, held_out = example.loaders(1536)
    trainer, model, _ = fit(example, batches=held_out, trace=tmp_path / "t", every=1000)
    trainer.fit(model, train)
    assert [line.epoch for line in read_trace(tmp_path / "t")] == [0, 1]


def test_a_trainer_that_goes_on_from_a_checkpoint_goes_on_with_its_trace(example, tmp_path):
    loaders, trace = example.loaders(1536), tmp_path / "t"
    trainer, model, _ = fit(example, trace=trace, every=1000)
    trainer.fit(model, *loaders)
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    fresh, model, _ = fit(example, trace=trace, every=1000)
    with pytest.raises(walkback.errors.InputError, match="holds a run already"):
        fresh.fit(model, *loaders)
    again, model, _ = fit(example, trace=trace, every=1000)
    again.fit_loop.max_epochs = 3
    again.fit(model, *loaders, ckpt_path=tmp_path / "c.ckpt")
    assert [line.epoch for line in read_trace(trace)] == [0, 1, 2]


def test_no_batches_at_all_is_said(example):
    train, _ = example.loaders(1536)
    trainer, model, _ = fit(example, every=1000)
    with pytest.raises(walkback.errors.InputError, match="no held-out batches"):
        trainer.fit(model, train)


def test_figures_reach_lightnings_own_loggers(example, tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    trainer, model, _ = fit(example, every=1000)
    trainer.loggers = [logger := CSVLogger(tmp_path)]
    trainer.fit(model, *example.loaders(1536))
    heading = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text().splitlines()[0]
    assert "walkback/h_norm/site_3" in heading
    assert logger is not None
