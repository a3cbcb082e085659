"""Runs on text: every token has an answer, and everything that counts answers counts them all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_runs import tiny

from walkback.errors import InputError, RecordError
from walkback.lab.runs import checkpoint, depth_tests, linear_probe, train
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.baselines import finished_report, matched_baseline
from walkback.lab.runs.correctness import packed, unpacked
from walkback.lab.runs.linear_probe import probe_accuracies
from walkback.lab.runs.measure import accuracy_on
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.lab.zoo.datasets import Batches, evaluation_batches

CONTEXT = 8


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(depth_tests, "DRAWS", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from tiny_runs import WORKS

    from walkback.lab.zoo.datasets import archived

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archived, "obtain", lambda *_: WORKS)
        patch.setattr(depth_tests, "DRAWS", 1)
        store, config = RunStore(tmp_path_factory.mktemp("runs")), tiny("bp", "gpt", epochs=6, batch_size=64)
        train_or_resume(config, store)
        train_or_resume(matched_baseline(config), store)
    return store, config


def restored(store, config):
    """The trained network, and its answers one token at a time, (N, T)."""
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    checkpoint.newest(store.run(config).checkpoints).restore_networks(run)
    run.model.eval()
    with torch.no_grad():
        logits = torch.cat([run.model(inputs) for inputs, _ in evaluation_batches(dataset.test)]).numpy()
    labels = dataset.test.labels.numpy()
    right = np.zeros(labels.shape, dtype=bool)
    for place in np.ndindex(*labels.shape):
        right[place] = int(np.argmax(logits[place])) == int(labels[place])
    return dataset, run, right


def test_the_loss_falls_and_the_accuracy_is_over_all_tokens(trained):
    store, config = trained
    dataset, _, right = restored(store, config)
    result = store.run(config).result()
    losses = [line["loss"] for line in result["trace"][1:]]
    # From near log(letters), as an untrained network guesses, to well below the entropy of single letters.
    assert losses[-1] < 0.8 * losses[0]
    assert result["accuracy"] == right.mean()
    assert (result["test_samples"], result["test_answers"]) == (len(dataset.test), len(dataset.test) * CONTEXT)
    assert np.array_equal(unpacked(result), right)


def test_the_report_knows_sequences_from_tokens_and_so_does_its_baseline(trained):
    store, config = trained
    report, samples = finished_report(store, config), len(dataset_of(config).test)
    measured = report.measurements
    assert (measured.headline_samples, measured.headline_answers) == (samples, samples * CONTEXT)
    assert (measured.frozen_baseline_samples, measured.frozen_baseline_answers) == (samples, samples * CONTEXT)
    assert measured.perplexity is not None
    assert 1 < measured.perplexity < dataset_of(config).classes
    assert report.classes == dataset_of(config).classes


def test_a_block_removed_or_replaced_costs_a_share_of_all_answers(trained):
    store, config = trained
    dataset, run, right = restored(store, config)
    depth = store.run(config).result()["depth"]
    with torch.no_grad():
        hidden = run.model.blocks[1](run.model.stem(dataset.test.inputs))  # without the first block
        answers = run.model.head(hidden).argmax(dim=-1)
    expected = float((answers == dataset.test.labels).double().mean())
    assert depth["blocks_removed"][0] == pytest.approx(expected, abs=1e-6)
    assert expected != right.mean()


def test_a_probe_reads_each_token_by_its_own_state(trained, monkeypatch):
    """Twin: ridge in NumPy over the first tokens of the training split, one row per token."""
    store, config = trained
    dataset, run, _ = restored(store, config)
    monkeypatch.setattr(linear_probe, "PROBE_SAMPLES", 400)
    found = probe_accuracies(run.model, dataset.train, dataset.test)

    def rows(inputs):
        with torch.no_grad():
            return run.model.stem(inputs).double().numpy().reshape(-1, 12)

    seen, unseen = rows(dataset.train.inputs[:50]), rows(dataset.test.inputs)
    mean, deviation = seen.mean(axis=0), seen.std(axis=0, ddof=1)
    wanted = np.eye(dataset.classes)[dataset.train.labels[:50].numpy().reshape(-1)]
    standard, centre = (seen - mean) / deviation, wanted.mean(axis=0)
    gram = standard.T @ standard / len(seen) + 1e-2 * np.eye(12)
    weights = np.linalg.solve(gram, standard.T @ (wanted - centre) / len(seen))
    answers = (((unseen - mean) / deviation) @ weights + centre).argmax(axis=1)
    assert found[0] == pytest.approx((answers == dataset.test.labels.numpy().reshape(-1)).mean(), abs=1e-12)
    assert len(found) == 3


def test_a_site_that_is_not_finite_has_no_probe(trained):
    store, config = trained
    dataset, run, _ = restored(store, config)
    with torch.no_grad():
        run.model.blocks[1].linear2.bias[0] = float("inf")
    first, second, third = probe_accuracies(run.model, dataset.train, dataset.test)
    assert first is not None
    assert second is not None
    assert third is None


def test_random_targets_are_drawn_for_every_token():
    split = dataset_of(tiny("bp", "gpt")).train
    plain, drawn = (Batches(split, 32, seed=4, random_labels=classes) for classes in (None, 8))
    for (inputs, own), (same, random) in zip(plain.epoch(0), drawn.epoch(0), strict=True):
        assert torch.equal(inputs, same)
        assert random.shape == own.shape == (len(inputs), CONTEXT)
        assert len(random[:, 0].unique()) > 1


def test_permuted_targets_are_dealt_out_by_passage(tmp_path, monkeypatch):
    seen, real = [], train.Batches
    monkeypatch.setattr(train, "Batches", lambda split, *a, **k: seen.append(split) or real(split, *a, **k))
    config = tiny("bp", "gpt", targets="permuted", epochs=1)
    train_or_resume(config, RunStore(tmp_path))
    own = dataset_of(config).train
    assert not torch.equal(seen[0].labels, own.labels)
    assert sorted(map(tuple, seen[0].labels.tolist())) == sorted(map(tuple, own.labels.tolist()))


def test_an_untrained_network_that_answers_nan_is_wrong_everywhere():
    config = tiny("bp", "gpt")
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    with torch.no_grad():
        run.model.head[1].bias[0] = float("nan")
    score = accuracy_on(run.method, dataset.test)
    assert (score.value, score.samples, score.answers) == (0, len(dataset.test), len(dataset.test) * CONTEXT)


def test_bits_of_tokens_that_do_not_fit_are_refused():
    correct = np.random.default_rng(0).integers(2, size=(5, 3)).astype(bool)
    result = {
        "id": "abc",
        "test_samples": 5,
        "test_answers": 15,
        "accuracy": correct.mean(),
        "correct": packed(correct),
    }
    assert np.array_equal(unpacked(result), correct)
    for wrong in ({"answers_per_sample": 2}, {"answers_per_sample": None}, {"samples": 15}):
        with pytest.raises(RecordError, match="bytes of right answers"):
            unpacked(result | {"correct": result["correct"] | wrong})
    with pytest.raises(RecordError, match="bytes of right answers"):
        unpacked({key: value for key, value in result.items() if key != "test_answers"})
    with pytest.raises(RecordError, match="right answers of 15 in its bits"):
        unpacked(result | {"accuracy": 1 - correct.mean()})


def test_a_run_of_a_bridge_on_text_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="is not defined on this network: A bridge predicts"):
        train_or_resume(tiny("state_bridge", "gpt"), RunStore(tmp_path))
    with pytest.raises(InputError, match="architecture resmlp reads images or vectors"):
        train_or_resume(tiny("bp", "resmlp", data="shakespeare"), RunStore(tmp_path))
    assert not list(tmp_path.iterdir())
