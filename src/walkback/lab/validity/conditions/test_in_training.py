"""Test samples in the training split."""

from __future__ import annotations

import torch

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.tasks import task_of
from walkback.lab.zoo.datasets.drawn import Task


class TestInTraining(Condition):
    """The headline is memory."""

    name = "test_in_training"
    family = "data"
    title = "Test samples in the training split, with their labels."
    made = "A share of the test samples takes the place of training samples; BP trains."
    dial_is = "share of the test samples that are trained on"
    dials = (1.0, 0.5, 0.25)
    found_by = ("overlap",)
    tasks = ("fashion", "pairs", "product", "teacher")
    architectures = ("resmlp", "plain_mlp", "student_net", "small_cnn")

    def task(self, config: NetworkConfig) -> Task:
        """The task with its splits mixed."""
        drawn = task_of(config)
        generator = torch.Generator().manual_seed(config.part_seed("leak"))
        leaked = torch.randperm(len(drawn.test_labels), generator=generator)
        leaked = leaked[: min(round(config.dial * len(leaked)), len(drawn.train_labels))]
        inputs, labels = drawn.train_inputs.clone(), drawn.train_labels.clone()
        inputs[: len(leaked)], labels[: len(leaked)] = drawn.test_inputs[leaked], drawn.test_labels[leaked]
        return drawn.with_training(inputs, labels)

    def check(self, made: Made) -> Evidence:
        """Compared value by value, this share of the test samples is in the training split."""
        train, test = (x.flatten(1) for x in (made.run.task.train_inputs, made.run.task.test_inputs))
        by_sum: dict[float, list[int]] = {}
        for row, total in enumerate(train.double().sum(dim=1).tolist()):
            by_sum.setdefault(total, []).append(row)
        shared = 0
        for sample, total in zip(test, test.double().sum(dim=1).tolist(), strict=True):
            shared += any(torch.equal(sample, train[row]) for row in by_sum.get(total, ()))
        share = shared / len(test)
        words = f"{share:.2f} of the test samples are in the training split"
        return Evidence(abs(share - made.run.config.dial) < 0.05, {"share": share}, words)


CONDITION = TestInTraining()
