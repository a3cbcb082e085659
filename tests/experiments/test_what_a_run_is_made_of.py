"""That a run is trained as its configuration says: order, augmentation, optimizer; and measured when it ends."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import tiny

from walkback.experiments import train
from walkback.experiments.assembly import assemble
from walkback.experiments.store import RunStore
from walkback.experiments.train import train_or_resume
from walkback.zoo import DataSpec

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
