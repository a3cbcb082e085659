"""Every condition makes what it says: looked at by a measure that neither the condition nor a diagnostic uses."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import tiny

from walkback.lab.validity.conditions import condition_named
from walkback.lab.validity.making import frozen_twin, trained
from walkback.lab.validity.tasks import TASKS, task_of
from walkback.lab.validity.training import Run, optimizer_of, started, take_step, train


def made_of(condition: str, dial: float, architecture: str = "resmlp", **changed):
    """A trained network of a condition, and whether the condition's own check agrees."""
    config = tiny(condition, dial, architecture, **changed)
    one = condition_named(condition)
    made = trained(one, config)
    made.run.notes["headline"] = one.headline(made)
    return one, made, one.check(made)


def changed_blocks(made) -> list[bool]:
    """Whether any bit of each block's parameters is another than at the start."""
    pairs = zip(made.run.model.blocks, made.start.blocks, strict=True)
    return [any(not torch.equal(a, b) for a, b in zip(n.parameters(), o.parameters(), strict=True)) for n, o in pairs]


@pytest.mark.parametrize("task", [name for name, maker in TASKS.items() if maker.needs_depth])
def test_no_linear_readout_does_a_task_that_needs_depth(task):
    """Least squares on the inputs, and on the one-hot letters of a string, stays near chance."""
    for level in TASKS[task].levels:
        found = task_of(tiny("healthy", 0.0, task=task, level=level, samples=2048))
        train_x, test_x = found.train_inputs.flatten(1), found.test_inputs.flatten(1)
        if task == "text":
            train_x, test_x = (F.one_hot(x.long(), 12).flatten(1).float() for x in (train_x, test_x))
        design = np.c_[train_x.double().numpy(), np.ones(len(train_x))]
        onehot = np.eye(found.classes)[found.train_labels.numpy()]
        weights = np.linalg.lstsq(design, onehot, rcond=None)[0]
        answers = (np.c_[test_x.double().numpy(), np.ones(len(test_x))] @ weights).argmax(axis=1)
        accuracy = float((answers == found.test_labels.numpy()).mean())
        assert accuracy < found.chance + 0.15 * (1 - found.chance), (task, level, accuracy, found.chance)


def test_no_test_sample_is_in_the_training_split_of_any_task():
    for task in ("product", "pairs", "text", "digits"):
        found = task_of(tiny("healthy", 0.0, task=task, level=TASKS[task].levels[0], samples=512))
        train = {tuple(row.tolist()) for row in found.train_inputs.flatten(1)}
        assert not any(tuple(row.tolist()) in train for row in found.test_inputs.flatten(1))


def test_a_healthy_network_learns_and_beats_its_twin():
    one, made, evidence = made_of("healthy", 0.0, samples=2048, epochs=10)
    assert evidence.holds
    assert all(changed_blocks(made))
    assert made.accuracy > float(frozen_twin(one, made).double().mean()) + 0.1
    again = trained(one, made.run.config)
    assert again.accuracy == made.accuracy
    assert all(
        torch.equal(a, b) for a, b in zip(made.run.model.parameters(), again.run.model.parameters(), strict=True)
    )


@pytest.mark.parametrize(("dial", "still"), [(1.0, [True] * 3), (0.5, [True, True, False])])
def test_frozen_blocks_keep_every_bit(dial, still):
    one, made, evidence = made_of("frozen_blocks", dial)
    assert evidence.holds
    assert changed_blocks(made) == [not each for each in still]
    if dial == 1.0:  # its frozen twin is the network itself
        assert torch.equal(frozen_twin(one, made), made.answers)


@pytest.mark.parametrize("architecture", ["resmlp", "small_resnet"])
def test_dead_blocks_can_be_left_out(architecture):
    _, made, evidence = made_of("dead_blocks", 1.0, architecture)
    assert evidence.holds
    inputs = made.run.task.test_inputs[:32]
    with torch.no_grad():
        without = made.run.model.head(made.run.model.stem(inputs))
        assert torch.equal(without, made.run.model(inputs))


def test_of_head_only_the_head_alone_moves():
    _, made, evidence = made_of("head_only", 0.0)
    assert evidence.holds
    assert changed_blocks(made) == [False] * 3
    assert not torch.equal(made.run.model.head[1].weight, made.start.head[1].weight)
    assert torch.equal(made.run.model.stem[1].weight, made.start.stem[1].weight)


def test_resampled_feedback_is_another_at_every_draw():
    one = condition_named("resampled_feedback")
    config = tiny("resampled_feedback", 4.0, method="dfa")
    run = started(one, config, one.task(config))
    seen = []
    for _ in range(9):
        take_step(one, run, run.task.train_inputs[:64], run.task.train_labels[:64])
        seen.append(run.method.feedback(1).clone())
    same = [torch.equal(a, b) for a, b in pairwise(seen)]
    assert same == [True, True, True, False, True, True, True, False]
    assert not any(torch.equal(run.claimed.feedback(1), each) for each in seen)
    _, _, evidence = made_of("resampled_feedback", 1.0, method="fa_block")
    assert evidence.holds


def test_permuted_credit_teaches_a_sample_the_gradient_of_another():
    _, made, evidence = made_of("permuted_credit", 1.0)
    assert evidence.holds
    gradients = [torch.arange(10.0)[:, None] * torch.ones(10, 3)]
    for share, least in ((1.0, 10), (0.5, 5)):
        made.run.method.share = share
        (moved,) = made.run.method.changed(gradients, torch.Generator().manual_seed(3))
        assert int((moved != gradients[0]).any(dim=1).sum()) == least
        assert sorted(moved[:, 0].tolist()) == list(range(10))


def test_permuted_labels_no_longer_belong_to_their_inputs():
    _one, made, evidence = made_of("permuted_labels", 1.0, samples=2048)
    assert evidence.holds
    right, wrong = task_of(made.run.config), made.run.task
    assert torch.equal(right.train_inputs, wrong.train_inputs)
    assert torch.equal(right.test_labels, wrong.test_labels)
    assert torch.equal(right.train_labels.sort()[0], wrong.train_labels.sort()[0])
    assert float((right.train_labels == wrong.train_labels).double().mean()) < 0.25
    assert made.accuracy < right.chance + 0.1


@pytest.mark.parametrize(
    ("condition", "dial", "factors"),
    [("exploding_stem", 1e4, [1e4, 1e4, 1e4, 1e4]), ("exploding_block", 1e3, [1, 1e3, 1e3, 1e3]),
     ("slow_growth", 6.0, [1, 6, 36, 216])],
)  # fmt: skip
def test_scales_explode_by_the_dial_and_start_out_flat(condition, dial, factors):
    _one, made, evidence = made_of(condition, dial)
    assert evidence.holds
    sizes = {}
    for name, model in (("start", made.start), ("end", made.run.model)):
        with torch.no_grad():
            hidden = [model.stem(made.run.task.test_inputs)]
            for block in model.blocks:
                hidden.append(block(hidden[-1]))
        sizes[name] = [float(h.norm(dim=1).median()) for h in hidden]
    for start, end, factor in zip(sizes["start"], sizes["end"], factors, strict=True):
        assert factor / 4 < end / start < factor * 12  # training moves it by some more


@pytest.mark.parametrize(("dial", "architecture"), [(1.0, "resmlp"), (2.0, "resmlp"), (3.0, "plain_mlp")])
def test_a_broken_reference_is_not_the_gradient(dial, architecture):
    """Twin: the gradient in fp64, of the same weights without the function that bends it."""
    one, made, evidence = made_of("broken_reference", dial, architecture)
    assert evidence.holds, evidence.words
    model = one.as_measured(made)
    x, y = made.run.task.test_inputs[:32], made.run.task.test_labels[:32]
    hidden = model.stem(x).detach()

    def gradient(network, h, blocks):
        h = start = h.requires_grad_()
        for block in blocks:
            h = block(h)
        return torch.autograd.grad(F.cross_entropy(network.head(h).double(), y), start)[0].double().numpy()

    exact = copy.deepcopy(model).double()
    straight = [getattr(block, "inner", block) for block in exact.blocks]
    found, wanted = gradient(model, hidden.clone(), model.blocks), gradient(exact, hidden.double(), straight)
    assert np.sqrt(((found - wanted) ** 2).sum() / (wanted**2).sum()) > 0.03


def test_a_strong_stem_does_without_its_blocks():
    one, made, evidence = made_of("strong_stem", 0.5, samples=2048, epochs=10)
    assert evidence.holds
    assert all(changed_blocks(made))
    assert float(frozen_twin(one, made).double().mean()) > made.accuracy - 0.05
    # No block was ever moved by credit: one step from here leaves them with noise alone, which the twin has not.
    run = started(one, made.run.config, made.run.task, twin=True)
    before = copy.deepcopy(run.model.blocks)
    take_step(one, run, run.task.train_inputs[:64], run.task.train_labels[:64])
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), run.model.blocks.parameters(), strict=True))


def test_bp_in_disguise_takes_the_steps_of_backpropagation():
    one = condition_named("bp_in_disguise")
    config = tiny("bp_in_disguise", 0.0)
    task = one.task(config)
    run = started(one, config, task)
    x, y = task.train_inputs[:64], task.train_labels[:64]
    run.method.accumulate(x, y)
    given = [p.grad.clone() for p in run.model.parameters()]
    run.model.zero_grad()
    F.cross_entropy(run.model(x), y).backward()
    for mine, parameter in zip(given, run.model.parameters(), strict=True):
        assert torch.allclose(mine, parameter.grad, atol=1e-6)
    _, _made, evidence = made_of("bp_in_disguise", 1.0)
    assert evidence.holds
    assert one.claimed_name(config) == "dfa"


def test_bp_as_dfa_never_uses_the_matrices_that_it_hands_in():
    _one, made, evidence = made_of("bp_as_dfa", 1.0)
    assert evidence.holds
    bp = condition_named("healthy")
    plain = train(bp, started(bp, made.run.config, made.run.task))
    pairs = zip(plain.model.parameters(), made.run.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert type(made.run.claimed).__name__ == "DFA"


def test_test_samples_are_trained_on():
    _, made, evidence = made_of("test_in_training", 0.5, samples=2048)
    assert evidence.holds
    train_rows = {tuple(row.tolist()) for row in made.run.task.train_inputs.flatten(1)}
    shared = [tuple(row.tolist()) in train_rows for row in made.run.task.test_inputs.flatten(1)]
    assert sum(shared) == 640


def test_the_headline_is_of_a_better_network():
    _one, made, evidence = made_of("other_headline", 0.1, samples=2048, epochs=10)
    assert evidence.holds
    assert made.run.steps == len(made.run.task.train_labels) // 64  # one epoch
    assert made.run.notes["headline"] > made.accuracy + 0.03


def test_the_best_of_n_is_the_best():
    one, made, evidence = made_of("best_of_n", 3.0, epochs=2)
    assert evidence.holds
    seeds = [c.seed for c in one.candidates(tiny("best_of_n", 3.0))]
    assert len(set(seeds)) == 3
    assert made.run.config.seed in seeds


def test_a_copied_run_goes_its_own_way():
    one = condition_named("healthy")
    config = tiny("healthy", 0.0)
    run = started(one, config, one.task(config))
    take_step(one, run, run.task.train_inputs[:64], run.task.train_labels[:64])
    copied: Run = run.copied()
    assert copied.method.model is copied.model
    assert copied.claimed is copied.method
    before = [p.clone() for p in run.model.parameters()]
    take_step(one, copied, run.task.train_inputs[64:128], run.task.train_labels[64:128])
    assert all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(before, copied.model.parameters(), strict=True))
    assert isinstance(optimizer_of(config, run.model, run.method), torch.optim.AdamW)
