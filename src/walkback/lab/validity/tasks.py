"""Data of the bench: small tasks, most of which no linear readout of the input can do, made or cut to size on the spot.

The rules of those that need depth are the zoo's, where each is a data set of its own.

A task is drawn anew for each network, from the network's own seed: two networks share a rule's form, never its samples.
Training and test samples are drawn apart, and no test sample is in the training split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from walkback.errors import UnknownName
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.zoo.datasets.digit_pairs import draw_pairs
from walkback.lab.zoo.datasets.drawn import TEST_SAMPLES, Floats, Labels, Rule, Task, apart, task_from
from walkback.lab.zoo.datasets.parity import parity
from walkback.lab.zoo.datasets.product import product
from walkback.lab.zoo.datasets.shells import shells
from walkback.lab.zoo.datasets.two_words import two_words
from walkback.registry import did_you_mean


@dataclass(frozen=True)
class Maker:
    """How a task is made, and what is known of it beforehand."""

    make: Rule
    needs_depth: bool
    """Whether a linear readout of the input stays near chance, by the rule of its labels."""
    levels: tuple[int, ...]
    reach: float
    """Which share of the way from chance to no error a network that has learnt it goes at the least."""
    kind: str = "image"
    """`image`: any network reads it; `vector`: for networks that flatten their input; `text`: codes of letters."""


@cache
def _digits() -> tuple[Floats, Labels, Floats, Labels]:
    """The digits of the zoo, with its fixed split, (N, 8, 8) of mean 0 and deviation 1."""
    from walkback.lab.zoo.datasets import load_dataset

    found = load_dataset("digits")
    parts: list[Floats | Labels] = []
    for split in (found.train, found.test):
        parts += [split.inputs.numpy()[..., 0] / 255.0, split.labels.numpy()]
    mean, deviation = parts[0].mean(), parts[0].std()
    return (parts[0] - mean) / deviation, parts[1], (parts[2] - mean) / deviation, parts[3]  # type: ignore[return-value]


def digits(level: int, samples: int, generator: np.random.Generator) -> Task:
    """The digits as they are, 8 × 8, ten classes; a linear readout does well. `level` is not used."""
    del level
    train, train_labels, test, test_labels = _digits()
    chosen = generator.permutation(len(train))[:samples]
    inputs = torch.from_numpy(train[chosen, None].astype(np.float32))
    held = torch.from_numpy(test[:, None].astype(np.float32))
    return Task(inputs, torch.from_numpy(train_labels[chosen]), held, torch.from_numpy(test_labels), 10)


def pairs(level: int, samples: int, generator: np.random.Generator) -> Task:
    """Two digits below `level`, one per channel; the class is their sum modulo `level`, which neither tells."""
    parts: list[Tensor] = []
    train, train_labels, test, test_labels = _digits()
    for images, labels, count in ((train, train_labels, samples), (test, test_labels, TEST_SAMPLES)):
        first, second, sums = draw_pairs(labels, level, count, generator)
        stacked = np.stack([images[first], images[second]], axis=1).astype(np.float32)
        parts += [torch.from_numpy(stacked), torch.from_numpy(sums)]
    train_inputs, train_targets, test_inputs, test_targets = parts
    return Task(train_inputs, train_targets, test_inputs, test_targets, level)


@cache
def _fashion() -> tuple[Floats, Labels]:
    """All of Fashion-MNIST's training split, padded to 32 × 32 and averaged to 16 × 16."""
    from walkback.lab.zoo.datasets import load_dataset

    train = load_dataset("fashion_mnist").train
    images = np.pad(train.inputs.numpy()[..., 0], ((0, 0), (2, 2), (2, 2)))
    small = images.reshape(-1, 16, 2, 16, 2).mean(axis=(2, 4)) / 255.0
    return (small - small.mean()) / small.std(), train.labels.numpy()


def fashion(level: int, samples: int, generator: np.random.Generator) -> Task:
    """Some of Fashion-MNIST at 16 × 16: the classes below `level`; a linear readout does most of it."""
    images, labels = _fashion()
    chosen = generator.permutation(np.flatnonzero(labels < level))[: samples + TEST_SAMPLES]
    return task_from(images[chosen, None], labels[chosen].astype(np.int64), samples, level)


def teacher(level: int, samples: int, generator: np.random.Generator) -> Task:
    """The zoo's synthetic teacher with α = `level`: folded class boundaries, of which a linear readout does a part."""
    from walkback.lab.zoo.datasets.synthetic_teacher import load

    seed = int(generator.integers(2**31))
    drawn = load(alpha=float(level), samples=max(1000, 5 * TEST_SAMPLES, samples + TEST_SAMPLES), seed=seed)
    inputs = torch.cat([drawn.train.inputs, drawn.test.inputs]).numpy().astype(np.float64)
    labels = torch.cat([drawn.train.labels, drawn.test.labels]).numpy()
    return task_from(inputs[: samples + TEST_SAMPLES], labels[: samples + TEST_SAMPLES], samples, drawn.classes)


def text(level: int, samples: int, generator: np.random.Generator) -> Task:
    """The zoo's two words, as codes of letters."""
    strings, labels = two_words(level, samples + TEST_SAMPLES, generator)
    return task_from(strings.astype(np.float64), labels, samples, 2)


TASKS: dict[str, Maker] = {
    "parity": Maker(parity, True, (2, 3), 0.5, "vector"),
    "product": Maker(product, True, (2, 3), 0.5),
    "shells": Maker(shells, True, (2, 3), 0.3, "vector"),
    "pairs": Maker(pairs, True, (3, 4, 5), 0.5),
    "text": Maker(text, True, (1, 2), 0.5, "text"),
    "digits": Maker(digits, False, (10,), 0.5),
    "fashion": Maker(fashion, False, (4, 7, 10), 0.5),
    "teacher": Maker(teacher, False, (1, 2), 0.15, "vector"),
}


def maker_of(task: str) -> Maker:
    """A task's maker by its name."""
    if task not in TASKS:
        raise UnknownName(f"there is no task called {task!r}. {did_you_mean(task, TASKS)}")
    return TASKS[task]


def task_of(config: NetworkConfig) -> Task:
    """The task of a network, drawn from the network's own seed; test samples that are in the training split are left
    out of it."""
    generator = np.random.default_rng(config.part_seed("task"))
    return apart(maker_of(config.task).make(config.level, config.samples, generator))
