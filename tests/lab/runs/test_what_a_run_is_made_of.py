"""That a run is trained as its configuration says: order, augmentation, optimizer; and measured when it ends."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import InterruptAfter, assert_same_run, tiny

from walkback.lab.runs import checkpoint, train
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.lab.zoo import DataSpec
from walkback.lab.zoo.datasets import Batches, evaluation_batches
from walkback.lab.zoo.methods.dfa import DFA

DIGITS = DataSpec((1, 8, 8), 10)


@pytest.mark.parametrize("augment", [True, False])
def test_batches_are_shuffled_and_augmented_as_configured(tmp_path, monkeypatch, augment):
    asked, real = [], train.Batches

    def spy(*arguments, **options):
        asked.append(options)
        return real(*arguments, **options)

    monkeypatch.setattr(train, "Batches", spy)
    train_or_resume(tiny(epochs=1, augment=augment), RunStore(tmp_path))
    (options,) = [options for options in asked if "augment" in options]
    assert (options["shuffle"], options["augment"]) == (True, augment)


@pytest.mark.parametrize(
    ("name", "kind", "fixed"),
    [
        ("adamw", torch.optim.AdamW, {}),
        ("adam", torch.optim.Adam, {}),
        ("sgd", torch.optim.SGD, {"momentum": 0.9}),
    ],
)
def test_the_optimizer_is_torchs_own_with_the_configured_settings(name, kind, fixed):
    config = tiny(optimizer=name, learning_rate=0.02, weight_decay=0.03)
    optimizer = assemble(config, DIGITS).optimizer
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert {key: group[key] for key in ("lr", "weight_decay", *fixed)} == {"lr": 0.02, "weight_decay": 0.03} | fixed


def test_a_finished_run_has_its_tests_of_depth(tmp_path):
    depth = train_or_resume(tiny(epochs=1), RunStore(tmp_path)).result()["depth"]
    assert all(depth[test] for test in ("blocks_removed", "blocks_rerandomised", "linear_probes"))


class Seen:
    """What every step of DFA was told, in order."""

    def __init__(self, monkeypatch):
        self.inputs, self.targets = [], []
        real = DFA.accumulate

        def spy(method, inputs, targets):
            self.inputs.append(inputs)
            self.targets.append(targets)
            return real(method, inputs, targets)

        monkeypatch.setattr(DFA, "accumulate", spy)

    def all(self):
        return torch.cat(self.inputs), torch.cat(self.targets)


def test_random_targets_go_to_the_step_and_nowhere_else(tmp_path, monkeypatch):
    results, told = {}, {}
    for targets in ("true", "random"):
        with monkeypatch.context() as patch:
            seen = Seen(patch)
            run = train_or_resume(tiny(targets=targets, batch_size=128), RunStore(tmp_path))
        results[targets], told[targets] = run.result(), seen.all()
    assert torch.equal(told["true"][0], told["random"][0])
    agreeing = (told["true"][1] == told["random"][1]).double().mean().item()
    # A tenth agree by chance; four standard deviations of 2 × 1258 draws.
    assert abs(agreeing - 0.1) < 4 * (0.09 / len(told["true"][1])) ** 0.5
    # Before the first step both are one network, and every figure of it is of the true labels.
    first = [{k: v for k, v in results[t]["trace"][0].items() if k != "seconds"} for t in ("true", "random")]
    assert first[0] == first[1]
    assert results["true"]["trace"][2]["bp_grad_norms"] != results["random"]["trace"][2]["bp_grad_norms"]


def test_accuracy_after_random_targets_is_of_the_true_labels(tmp_path):
    config = tiny(targets="random")
    run = train_or_resume(config, RunStore(tmp_path))
    dataset = dataset_of(config)
    assembly = assemble(config, dataset.spec)
    checkpoint.newest(run.checkpoints).restore_networks(assembly)
    assembly.model.eval()
    with torch.no_grad():
        right = [(assembly.model(x).argmax(1) == y).sum().item() for x, y in evaluation_batches(dataset.test)]
    assert run.result()["accuracy"] == sum(right) / len(dataset.test)
    assert run.result()["report"]["headline_acc"] == run.result()["accuracy"]


def test_a_resumed_run_sees_the_random_targets_that_it_would_have_seen(tmp_path, monkeypatch):
    config, whole, cut = tiny(targets="random", epochs=3), RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    with monkeypatch.context() as patch:
        straight = Seen(patch)
        train_or_resume(config, whole)
    torch.manual_seed(999)
    with monkeypatch.context() as patch:
        resumed = Seen(patch)
        with pytest.raises(KeyboardInterrupt):
            train_or_resume(config, cut, InterruptAfter(1))
        train_or_resume(config, cut)
    assert torch.equal(straight.all()[1], resumed.all()[1])
    assert_same_run(whole.run(config), cut.run(config))
    steps = [tuple(targets.tolist()) for targets in straight.targets]
    assert len(set(steps)) == len(steps)


def test_one_adamw_for_each_module_takes_the_steps_of_one_for_all():
    """The source study has an AdamW per block; it moves each weight by that weight's own gradients alone."""
    config = tiny(
        method_options={"credit_norm": "per_sample"}, epochs=5, architecture_options={"width": 12, "depth": 3}
    )
    one, several = (assemble(config, DIGITS) for _ in range(2))
    modules = [several.model.stem, *several.model.blocks, several.model.head]
    settings = {"lr": config.learning_rate, "weight_decay": config.weight_decay, "fused": True}
    optimizers = [torch.optim.AdamW(module.parameters(), **settings) for module in modules]
    batches = Batches(dataset_of(config).train, 128, seed=3, shuffle=True)
    before = [parameter.clone() for parameter in one.model.parameters()]
    for epoch in range(2):
        for inputs, targets in batches.epoch(epoch):
            one.method.accumulate(inputs, targets)
            one.optimizer.step()
            one.optimizer.zero_grad()
            several.method.accumulate(inputs, targets)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    pairs = zip(before, one.model.parameters(), several.model.parameters(), strict=True)
    for start, together, apart in pairs:
        assert not torch.equal(start, together)
        assert torch.equal(together, apart)
