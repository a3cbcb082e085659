"""Training labels that belong to other samples."""

from __future__ import annotations

import torch

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.permuted_credit import permutation
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.tasks import task_of
from walkback.lab.zoo.datasets.drawn import Task


class PermutedLabels(Condition):
    """A join that lost its key: inputs and labels of the training split no longer belong together."""

    name = "permuted_labels"
    family = "data"
    title = "Training labels exchanged between samples."
    made = "A share of the training labels is rotated among itself once, before training; the test split is right."
    dial_is = "share of the training labels that are another sample's"
    dials = (1.0, 0.95, 0.9)
    found_by = ("linear_readouts", "head_gap", "depth_gain")

    def task(self, config: NetworkConfig) -> Task:
        """The task with its labels exchanged."""
        drawn = task_of(config)
        generator = torch.Generator().manual_seed(config.part_seed("labels"))
        order = permutation(len(drawn.train_labels), config.dial, generator)
        return drawn.with_training(drawn.train_inputs, drawn.train_labels[order])

    def check(self, made: Made) -> Evidence:
        """Beside the task as it should be, labels agree no more often than the dial allows."""
        right = task_of(made.run.config).train_labels
        agree = float((right == made.run.task.train_labels).double().mean())
        shares = torch.bincount(right).double() / len(right)
        expected = (1 - made.run.config.dial) + made.run.config.dial * float((shares**2).sum())
        words = f"{agree:.2f} of the training labels are right, {expected:.2f} by the dial and by chance"
        return Evidence(abs(agree - expected) < 0.06, {"right": agree, "expected": expected}, words)


CONDITION = PermutedLabels()
