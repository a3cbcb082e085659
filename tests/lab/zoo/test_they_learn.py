"""A short real training on digits: each method, and each of its ways, learns far more than chance, which is 0.1."""

from __future__ import annotations

import pytest
import torch

from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.measure import accuracy_on
from walkback.lab.runs.train import train_epoch
from walkback.lab.zoo.datasets import Batches

FAR_ABOVE_CHANCE = 0.5
WAYS = [
    ("pc", {"steps": 8}),
    ("pc", {"steps": 4, "inference": "errors"}),
    ("pc", {"steps": 4, "learning": "incremental"}),
    ("dtp", {}),
    ("dtp", {"feedback": "layerwise"}),
    ("local_loss", {}),
    ("local_loss", {"loss": "pred"}),
    ("local_loss", {"loss": "sim"}),
    ("mono_forward", {}),
    ("forward_forward", {}),
    ("forward_forward", {"prediction": "softmax"}),
    ("pepita", {}),
    ("forward_gradient", {}),
    ("forward_gradient", {"loss": "local"}),
    ("forward_gradient", {"perturb": "weights"}),
]


def trained(method, options, epochs, rate):
    """The test accuracy of a small ResMLP after so many epochs at a batch of 64."""
    config = RunConfig(
        method=method,
        architecture="resmlp",
        data="digits",
        seed=0,
        epochs=epochs,
        batch_size=64,
        learning_rate=rate,
        method_options=options,
        architecture_options={"width": 32, "depth": 2},
    )
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    batches = Batches(dataset.train, config.batch_size, seed=0, augment=False, shuffle=True)
    torch.manual_seed(0)
    for epoch in range(1, epochs + 1):
        train_epoch(config, run, batches, epoch)
    return accuracy_on(run.method, dataset.test).value


@pytest.mark.parametrize(("method", "options"), WAYS, ids=lambda value: str(value))
def test_it_learns(method, options):
    # Forward-forward starts from layers that are all quiet, and needs longer steps to make them active.
    epochs, rate = (12, 1e-2) if method == "forward_forward" else (5, 3e-3)
    assert trained(method, options, epochs, rate) > FAR_ABOVE_CHANCE
