"""What is measured on a network, against slow twins; the record, whole and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tiny import tiny

from walkback.errors import RecordError
from walkback.lab.runs.correctness import unpacked
from walkback.lab.validity import measure
from walkback.lab.validity.conditions import condition_named
from walkback.lab.validity.making import make, trained
from walkback.lab.validity.provenance import parts_of, replayed
from walkback.lab.validity.record import load
from walkback.lab.validity.training import randomised_like, started


@pytest.fixture(scope="module")
def made():
    return trained(condition_named("healthy"), tiny("healthy", 0.0, "vit_mini", depth=2, epochs=3, samples=256))


@pytest.fixture(scope="module")
def record():
    return make(tiny("bp_as_dfa", 1.0, samples=512, epochs=4))


def hiddens(model, inputs):
    with torch.no_grad():
        found = [model.stem(inputs)]
        for block in model.blocks:
            found.append(block(found[-1]))
    return [h.double().numpy() for h in found]


def test_norms_are_medians_over_samples(made):
    inputs = made.run.task.test_inputs
    found = measure.site_norms(made.run.model, inputs)
    for site, h in enumerate(hiddens(made.run.model, inputs)):
        flat, first = [np.sqrt((row**2).sum()) for row in h], [np.sqrt((row[0] ** 2).sum()) for row in h]
        tokens = [np.mean([np.sqrt((token**2).sum()) for token in row]) for row in h]
        for name, values in (("flat", flat), ("first_token", first), ("mean_token", tokens)):
            assert found[name][site] == pytest.approx(sorted(values)[(len(values) - 1) // 2], rel=1e-5)


def test_gradients_are_those_of_each_samples_own_loss(made):
    model, inputs, labels = made.run.model, made.run.task.test_inputs[:15], made.run.task.test_labels[:15]
    found = measure.gradient_sizes(model, inputs, labels)
    last, errors = [], []
    for x, y in zip(inputs, labels, strict=True):
        h = model.stem(x[None]).detach()
        for block in model.blocks:
            h = block(h)
        h = h.detach().requires_grad_()
        logits = model.head(h)
        (grad,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y[None]), h)
        error = logits.detach().double().softmax(dim=1)[0].numpy()
        error[int(y)] -= 1
        last.append(float(grad.norm()))
        errors.append(float(np.sqrt((error**2).sum())))
    assert found["norms"][-1] == pytest.approx(np.median(last) / 128, rel=1e-4)
    assert found["error"][0] == pytest.approx(np.median(errors), rel=1e-5)
    assert found["per_error"][-1] == pytest.approx(np.median(np.array(last) / errors), rel=1e-4)


def test_readouts_are_ridge_regressions(made):
    """Twin: the normal equations of an augmented least-squares problem."""
    task = made.run.task
    found = measure.readouts_of(made.run.model, task)
    sites = []
    for inputs in (task.train_inputs, task.test_inputs):
        sites.append([np.concatenate([h[:, 0], h.mean(axis=1)], axis=1) for h in hiddens(made.run.model, inputs)])
    onehot = np.eye(task.classes)[task.train_labels.numpy()]
    for site, (seen, new) in enumerate(zip(*sites, strict=True)):
        scale = seen.std(axis=0, ddof=1)
        scale[scale == 0] = 1
        a, b = (seen - seen.mean(axis=0)) / scale, (new - seen.mean(axis=0)) / scale
        rows = np.vstack([a, np.sqrt(0.01 * len(a)) * np.eye(a.shape[1])])
        targets = np.vstack([onehot - onehot.mean(axis=0), np.zeros((a.shape[1], task.classes))])
        weights = np.linalg.lstsq(rows, targets, rcond=None)[0]
        right = (b @ weights + onehot.mean(axis=0)).argmax(axis=1) == task.test_labels.numpy()
        assert found.accuracies[site] == pytest.approx(right.mean(), abs=0.003)
    assert len(found.accuracies) == 3


def test_movement_is_relative_to_the_start(made):
    found = measure.movement_of(made)
    for number, (new, old) in enumerate(zip(parts_of(made.run.model), parts_of(made.start), strict=True)):
        a, b = (np.concatenate([p.detach().double().numpy().ravel() for p in m.parameters()]) for m in (new, old))
        assert found["parts"][number] == pytest.approx(np.sqrt(((a - b) ** 2).sum() / (b**2).sum()), rel=1e-6)
    assert found["blocks"] == found["parts"][1:-1]


def test_random_blocks_have_the_norms_of_the_trained_ones(made):
    one = condition_named("healthy")
    run = started(one, made.run.config, made.run.task, twin=True)
    randomised_like(run.model, made.run.model, torch.Generator().manual_seed(0))
    for mine, theirs in zip(run.model.blocks.parameters(), made.run.model.blocks.parameters(), strict=True):
        mine, theirs = mine.detach(), theirs.detach()
        assert float(mine.norm()) == pytest.approx(float(theirs.norm()), rel=1e-5)
        if theirs.ndim > 1:
            assert not torch.equal(mine, theirs)
        else:
            assert torch.equal(mine.sort()[0], theirs.sort()[0])
    assert not any(p.requires_grad for p in run.model.blocks.parameters())


def test_a_replay_of_the_truth_agrees_with_itself_and_leaves_the_run_alone(made):
    before = [p.detach().clone() for p in made.run.model.parameters()]
    found = replayed(condition_named("healthy"), made.run, "end")
    assert all(c == pytest.approx(1.0, abs=1e-5) for c in found.claimed_update_with_real)
    assert all(c == pytest.approx(1.0, abs=1e-5) for c in found.real_update_with_gradient)
    assert all(c == pytest.approx(1.0, abs=1e-4) for c in found.claimed_step_with_real)
    assert all(torch.equal(a, b) for a, b in zip(before, made.run.model.parameters(), strict=True))


def test_a_record_holds_what_diagnostics_need(record, tmp_path):
    assert record.truth.holds
    assert record.claimed == "dfa"
    assert record.report is not None
    assert record.report.alignment.sites is not None
    assert record.report.frozen_baseline_acc == pytest.approx(record.frozen_twin.accuracy)
    assert record.report.frozen_baseline_correct.share == pytest.approx(record.frozen_twin.accuracy)
    assert record.report.random_baseline_correct.share == pytest.approx(record.random_twin.accuracy)
    assert record.report.block_movement == pytest.approx(record.movement["blocks"])
    assert record.report.overlap.count == record.overlap["in_train"]
    assert len(record.report.readouts.correct) == record.config.depth + 1
    # Made again by the tool itself: the real step is BP's, and not that of the rule which was handed in.
    assert set(record.updates) == {"end", "credit"}
    assert not record.not_replayed
    for updates in (record.report.updates, *record.updates.values()):
        assert min(updates.true_gradient) > 0.99
        assert min(updates.claimed[:-1]) < 0.9
    replay = record.provenance[0]
    assert [replay.at for replay in record.provenance] == ["middle", "end"]
    # BP's real update, beside that of the DFA which was handed in: the head's agree, the first blocks' do not.
    assert replay.claimed_update_with_real[-1] == pytest.approx(1.0, abs=1e-5)
    assert max(map(abs, replay.claimed_update_with_real[:2])) < 0.9
    assert min(replay.real_update_with_gradient) > 0.999
    sites = record.config.depth + 1
    assert len(record.norms["start"]["flat"]) == len(record.norms["end"]["flat"]) == sites
    assert len(record.readouts.accuracies) == len(record.readouts.correct) == sites
    assert record.random_twin is not None
    assert record.overlap == {"test": 1280, "in_train": 0, "same_label": 0}
    bits = unpacked({"id": "x", "test_samples": 1280, "accuracy": record.own.accuracy, "correct": record.own.correct})
    assert bits.mean() == pytest.approx(record.own.accuracy)
    path = record.save(tmp_path / "network.json")
    assert load(path) == record
    broken = json.loads(path.read_text()) | {"record_version": 99}
    path.write_text(json.dumps(broken))
    with pytest.raises(RecordError, match="record_version 99"):
        load(path)
