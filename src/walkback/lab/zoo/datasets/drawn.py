"""Tasks that are drawn from a rule: samples that no linear readout of the input tells apart, made on the spot.

The bench of known truth draws one for each of its networks, and a data set of the zoo is one of them with a seed.
Training and test samples are drawn apart, and no test sample is in the training split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkback.lab.zoo.contract import DataSpec
from walkback.lab.zoo.datasets.splits import AS_IT_IS, Dataset, Split
from walkback.lab.zoo.options import require_at_least, require_at_most

TEST_SAMPLES = 1280
"""Ten groups of 128, as in the published protocol."""
FEWEST, MOST = 128, 10_000_000
"""Of training samples."""
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test samples, ready for a network: float32 inputs (N, …), int64 labels (N,)."""

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: int

    @property
    def spec(self) -> DataSpec:
        """What an architecture needs to know."""
        return DataSpec(tuple(self.train_inputs.shape[1:]), self.classes)

    @property
    def chance(self) -> float:
        """The accuracy of always answering the most frequent class of the test split."""
        return float(torch.bincount(self.test_labels).max()) / len(self.test_labels)

    def with_training(self, inputs: Tensor, labels: Tensor) -> Task:
        """The same test split with another training split."""
        return replace(self, train_inputs=inputs, train_labels=labels)


Rule = Callable[[int, int, np.random.Generator], Task]
"""(level, training samples, generator) → task; the level says how hard it is, in the task's own unit."""


def task_from(inputs: Floats, labels: Labels, samples: int, classes: int) -> Task:
    """The first samples for training, the rest for testing."""
    data, answers = torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(labels)
    return Task(data[:samples], answers[:samples], data[samples:], answers[samples:], classes)


def apart(task: Task) -> Task:
    """The task without the training samples that are test samples too."""
    held = set(hashes(task.test_inputs))
    fresh = torch.tensor([key not in held for key in hashes(task.train_inputs)])
    return task.with_training(task.train_inputs[fresh], task.train_labels[fresh])


def hashes(inputs: Tensor) -> list[bytes]:
    """One BLAKE2 hash of 16 bytes per sample, of its float32 values."""
    rows = inputs.to(torch.float32).contiguous().numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


def check_drawn(name: str, level: int, levels: tuple[int, int], samples: int, seed: int) -> None:
    """Refuse a level, a number of samples or a seed that a task cannot be drawn with."""
    owner = f"data set {name}"
    require_at_least(owner, levels[0], level=level)
    require_at_most(owner, levels[1], level=level)
    require_at_least(owner, FEWEST, samples=samples)
    require_at_most(owner, MOST, samples=samples)
    require_at_least(owner, 0, seed=seed)


def vectors_from(name: str, rule: Rule, level: int, samples: int, seed: int) -> Dataset:
    """The task of a rule and a seed as a data set of vectors; the same each time."""
    task = apart(rule(level, samples, np.random.default_rng(seed)))
    train = Split(task.train_inputs, task.train_labels, AS_IT_IS)
    test = Split(task.test_inputs, task.test_labels, AS_IT_IS)
    return Dataset(name, train, test, tuple(f"class {label}" for label in range(task.classes)))
