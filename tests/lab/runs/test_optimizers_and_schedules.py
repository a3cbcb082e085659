"""Momentum, stepped rates and the cool-down: what they do, what they refuse, and that no run changed its id."""

from __future__ import annotations

import itertools
import shlex

import pytest
import torch
from torch import nn

from walkback.errors import InputError
from walkback.lab.cli.settings import assigned
from walkback.lab.runs.assembly import _optimizer, dataset_of, rate_at
from walkback.lab.runs.config import RunConfig, merged
from walkback.lab.runs.ids import run_id_of
from walkback.lab.runs.progress import Silent
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import Training

RUN = {"method": "bp", "architecture": "mlp", "data": "digits", "seed": 1, "epochs": 10}


def rates(config, steps_per_epoch=2):
    steps = config.epochs * steps_per_epoch
    return [rate_at(config, step, steps) for step in range(steps)]


def test_the_rate_falls_after_each_milestone():
    config = RunConfig(**RUN, schedule="steps", milestones=[3, 8], step_factor=0.5, learning_rate=1.0)
    assert rates(config) == [1.0] * 6 + [0.5] * 10 + [0.25] * 4


def test_the_cool_down_is_flat_and_then_a_straight_line():
    found = rates(RunConfig(**RUN, schedule="cooldown", learning_rate=2.0))
    assert found[:11] == [2.0] * 11
    assert found[11:] == pytest.approx([2.0 * (1 - k / 10) for k in range(1, 10)])


def test_sgd_has_the_momentum_that_is_given():
    for momentum, moved in ((0.0, 2.0), (0.9, 2.9)):
        config = RunConfig(**RUN, optimizer="sgd", momentum=momentum, learning_rate=1.0, weight_decay=0.0)
        parameter = nn.Parameter(torch.zeros(()))
        optimizer = _optimizer(config, [parameter], fused=True)
        for _ in range(2):
            parameter.grad = torch.ones(())
            optimizer.step()
        assert float(parameter.detach()) == pytest.approx(-moved)


@pytest.mark.parametrize(
    "given",
    [
        {"momentum": 0.5},
        {"optimizer": "adam", "momentum": 0.0},
        {"optimizer": "sgd", "momentum": 1.0},
        {"schedule": "steps"},
        {"milestones": [3]},
        {"step_factor": 0.5},
        {"schedule": "steps", "milestones": [5, 3]},
        {"schedule": "steps", "milestones": [0]},
        {"schedule": "steps", "milestones": [2], "step_factor": 0.0},
    ],
)
def test_a_setting_that_means_nothing_is_refused(given):
    with pytest.raises(InputError):
        RunConfig(**RUN, **given)


def test_a_run_that_does_not_shuffle_sees_the_order_of_the_split(tmp_path):
    seen = {}
    for shuffle in (True, False):
        config = RunConfig(**RUN | {"epochs": 1}, shuffle=shuffle)
        training = Training(config, RunStore(tmp_path).run(config), Silent(), torch.device("cpu"))
        seen[shuffle] = torch.cat([labels for _, labels in training.batches.epoch(0)])
    labels = dataset_of(config).train.labels
    assert torch.equal(seen[False], labels)
    assert not torch.equal(seen[True], labels)
    assert "shuffle=false" in config.command


def test_a_run_with_the_defaults_has_the_id_of_before():
    plain = RunConfig(**RUN, optimizer="sgd")
    assert plain.run_id == RunConfig(**RUN, optimizer="sgd", momentum=0.9, milestones=[]).run_id
    assert not {"momentum", "milestones", "step_factor", "shuffle"} & plain.identity.keys()
    old = {
        name: value
        for name, value in plain.to_dict().items()
        if name not in ("momentum", "milestones", "step_factor", "shuffle")
    }
    old["architecture_options"] = {"widths": [500, 500], "activation": "relu"}
    assert run_id_of(old) == plain.run_id


def test_the_command_of_a_run_names_every_setting():
    config = RunConfig(
        **RUN, optimizer="sgd", momentum=0.5, schedule="steps", milestones=[3, 8], step_factor=0.25,
        architecture_options={"widths": [5], "bias": "fixed"},
    )  # fmt: skip
    words = shlex.split(config.command)
    settings = dict(RUN) | {"optimizer": "sgd", "schedule": "steps"}
    for flag, value in itertools.pairwise(words):
        settings = merged(settings, assigned(value)) if flag == "--set" else settings
    assert RunConfig(**settings).run_id == config.run_id
