"""Validation samples: cut off the training split, the same in every run, and the test split unread until the end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_runs import WORKS, tiny

from walkback.errors import InputError
from walkback.lab.runs import depth_tests, train
from walkback.lab.runs.assembly import dataset_of
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.ids import run_id_of
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.token_credit import site_gradients
from walkback.lab.runs.train import train_or_resume
from walkback.lab.runs.validation import splits_of, validation_indices


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(depth_tests, "DRAWS", 1)


def test_ids_of_before_stay_and_new_settings_make_new_ones():
    plain = tiny("dfa")
    assert "validation" not in plain.identity
    assert "tested" not in plain.identity
    assert RunConfig(**plain.to_dict() | {"validation": 0.0, "tested": True}).run_id == plain.run_id
    ids = {plain.run_id, plain.changed(validation=0.1).run_id, plain.changed(validation=0.1, tested=False).run_id}
    assert len(ids) == 3
    other = plain.changed(validation=0.1, tested=False)
    assert run_id_of(other.to_dict()) == other.run_id
    assert "--set validation=0.1 --set tested=false" in other.command


def test_a_run_that_is_not_tested_needs_a_share():
    with pytest.raises(InputError, match="tested is false with validation 0"):
        tiny("bp", tested=False)


@pytest.mark.parametrize(("count", "share"), [(3, 0.1), (3, 0.99), (1, 0.5)])
def test_a_share_that_leaves_one_side_empty_is_refused(count, share):
    with pytest.raises(InputError, match="leaves one side without any"):
        validation_indices(count, share)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_kept_and_held_samples_are_all_of_the_training_split_and_none_twice(share):
    kept, held = validation_indices(1000, share)
    assert len(held) == round(share * 1000)
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(1000))
    assert validation_indices(1000, share)[1].equal(held)


def test_validation_samples_are_of_the_training_split_and_never_of_the_test_split():
    config = tiny("bp", validation=0.2)
    whole = dataset_of(config)
    splits = splits_of(config, whole)
    held = {sample.numpy().tobytes() for sample in splits.during.test.inputs}
    assert held <= {sample.numpy().tobytes() for sample in whole.train.inputs}
    assert not held & {sample.numpy().tobytes() for sample in whole.test.inputs}
    assert not held & {sample.numpy().tobytes() for sample in splits.during.train.inputs}
    assert splits.at_the_end.test.inputs.equal(whole.test.inputs)
    assert splits.at_the_end.train.inputs.equal(splits.during.train.inputs)
    other = splits_of(config.changed(seed=99, method="dfa", method_options={}), whole)
    assert other.during.test.inputs.equal(splits.during.test.inputs)


def test_a_run_that_is_not_tested_gives_the_same_whatever_the_test_split_holds(tmp_path, monkeypatch):
    config = tiny("dfa", validation=0.2, tested=False)
    first = train_or_resume(config, RunStore(tmp_path / "one")).result()
    real = dataset_of(config)
    spoilt = real.test.labels.flip(0)
    broken = type(real)(
        real.name,
        real.train,
        type(real.test)(torch.zeros_like(real.test.inputs), spoilt, real.test.preparation),
        real.class_names,
    )
    monkeypatch.setattr(train, "dataset_of", lambda _: broken)
    second = train_or_resume(config, RunStore(tmp_path / "two")).result()
    assert (first["accuracy"], first["loss"]) == (second["accuracy"], second["loss"])
    assert [line["accuracy"] for line in first["trace"]] == [line["accuracy"] for line in second["trace"]]
    assert (first["test_reads"], first["test_samples"]) == (0, first["validation"]["samples"])
    assert first["report"] is None
    assert "correct" not in first


def test_a_tested_run_trains_alike_and_reads_the_test_split_when_it_is_over(tmp_path):
    config = tiny("dfa", validation=0.2)
    store = RunStore(tmp_path)
    tuned = train_or_resume(config.changed(tested=False), store).result()
    final = train_or_resume(config, store).result()
    assert [line["accuracy"] for line in tuned["trace"]] == [line["accuracy"] for line in final["trace"]]
    assert final["test_reads"] == 1
    assert final["test_samples"] == len(dataset_of(config).test)
    assert final["report"]["headline_acc"] == final["accuracy"]
    assert final["validation"] == tuned["validation"]


@pytest.fixture
def verses(monkeypatch):
    from walkback.lab.zoo.datasets import archived

    monkeypatch.setattr(archived, "obtain", lambda *_: WORKS)


@pytest.mark.parametrize("method", ["bp", "dfa", "fa", "mono_forward"])
def test_a_language_model_ends_with_loss_perplexity_and_gamma_by_token(method, verses, tmp_path):
    config = tiny(method, "gpt", validation=0.1, epochs=1)
    result = train_or_resume(config, RunStore(tmp_path)).result()
    assert result["perplexity"] == pytest.approx(np.exp(result["loss"]), rel=1e-6)
    assert result["test_answers"] == 8 * result["test_samples"]
    assert result["report"]["perplexity"] > 1
    assert result["report"]["residual_norms"]
    assert result["report"]["cross_batch_stability"] is not None
    assert len(result["depth"]["linear_probes"]) == 3
    by_token = result["gamma_by_token"]
    if method == "mono_forward":
        assert "by design" in by_token["unmeasured"]
        return
    assert [len(row) for row in by_token["sites"]] == [8, 8, 8]
    deep = by_token["site_means"][1]
    assert deep == pytest.approx(1.0, abs=1e-4) if method == "bp" else abs(deep) < 0.9


def test_gradients_by_site_are_those_of_autograd_on_one_sample_at_a_time(verses):
    from walkback.lab.runs.assembly import assemble

    config = tiny("bp", "gpt")
    dataset = dataset_of(config)
    model = assemble(config, dataset.spec).model.double()
    inputs, targets = dataset.test.inputs[:3], dataset.test.labels[:3]
    found = site_gradients(model, inputs, targets)
    for sample in range(3):
        hidden = model.stem(inputs[sample : sample + 1]).detach().requires_grad_()
        logits = model.head(model.blocks[1](model.blocks[0](hidden)))
        loss = -logits.log_softmax(-1)[0, torch.arange(8), targets[sample]].mean()
        assert torch.allclose(torch.autograd.grad(loss, hidden)[0][0], found[0][sample], atol=1e-12)
