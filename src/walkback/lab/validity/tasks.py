"""Data of the bench: small tasks, most of which no linear readout of the input can do, made or cut to size on the spot.

A task is drawn anew for each network, from the network's own seed: two networks share a rule's form, never its samples.
Training and test samples are drawn apart, and no test sample is in the training split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkback.errors import UnknownName
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.zoo.contract import DataSpec
from walkback.registry import did_you_mean

TEST_SAMPLES = 1280
"""Ten groups of 128, as in the published protocol; fewer where a data set has fewer."""
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


@dataclass(frozen=True)
class Maker:
    """How a task is made, and what is known of it beforehand."""

    make: Callable[[int, int, np.random.Generator], Task]
    """(level, training samples, generator) → task."""
    needs_depth: bool
    """Whether a linear readout of the input stays near chance, by the rule of its labels."""
    levels: tuple[int, ...]
    reach: float
    """Which share of the way from chance to no error a network that has learnt it goes at the least."""
    kind: str = "image"
    """`image`: any network reads it; `vector`: for networks that flatten their input; `text`: codes of letters."""


def _task(inputs: Floats, labels: Labels, samples: int, classes: int) -> Task:
    data, answers = torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(labels)
    return Task(data[:samples], answers[:samples], data[samples:], answers[samples:], classes)


def parity(level: int, samples: int, generator: np.random.Generator) -> Task:
    """The product of the signs of `level` random projections of x ~ N(0, I_20), samples near a boundary left out."""
    directions = np.linalg.qr(generator.standard_normal((20, level)))[0]
    inputs, sides = _apart(directions, samples + TEST_SAMPLES, generator)
    return _task(inputs, (sides.prod(axis=1) > 0).astype(np.int64), samples, 2)


def _apart(directions: Floats, count: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Inputs whose projections all lie 0.4 or more from 0, and the signs of these projections."""
    kept: list[Floats] = []
    while sum(map(len, kept)) < count:
        drawn = generator.standard_normal((4 * count, len(directions)))
        kept.append(drawn[(np.abs(drawn @ directions) > 0.4).all(axis=1)])
    inputs = np.concatenate(kept)[:count]
    return inputs * 1.5, np.sign(inputs @ directions)


def product(level: int, samples: int, generator: np.random.Generator) -> Task:
    """A composed rule: `level` elements of the group of permutations of three things, the class being their product.

    x = Σ_i E_i[element_i] + noise in 64 dimensions, E_i random. Given all elements but one, every class is equally
    likely, so no sum over positions tells anything.
    """
    elements = generator.integers(6, size=(samples + TEST_SAMPLES, level))
    codes = generator.standard_normal((level, 6, 64)) / np.sqrt(level)
    noise = 0.25 * generator.standard_normal((len(elements), 64))
    inputs = sum((codes[place][elements[:, place]] for place in range(level)), noise)
    table, result = _symmetric_group(), elements[:, 0]
    for place in range(1, level):
        result = table[result, elements[:, place]]
    return _task(np.asarray(inputs), result.astype(np.int64), samples, 6)


def _symmetric_group() -> Labels:
    """The multiplication table (6, 6) of the permutations of three things."""
    import itertools

    members = list(itertools.permutations(range(3)))
    return np.array([[members.index(tuple(a[b[i]] for i in range(3))) for b in members] for a in members])


def shells(level: int, samples: int, generator: np.random.Generator) -> Task:
    """Classes by how far x lies from the origin in a random subspace of `level` of 64 dimensions; four equal shells."""
    plane = np.linalg.qr(generator.standard_normal((64, level)))[0]
    inputs = generator.standard_normal((samples + TEST_SAMPLES, 64))
    inputs += inputs @ plane @ plane.T  # the subspace is twice as wide, so that it can be found
    radius = np.linalg.norm(inputs @ plane, axis=1)
    labels = np.searchsorted(np.quantile(radius, (0.25, 0.5, 0.75)), radius)
    return _task(inputs, labels.astype(np.int64), samples, 4)


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
        allowed = np.flatnonzero(labels < level)
        total = len(allowed) ** 2
        drawn = generator.choice(total, size=min(count, total), replace=False)  # a pair is taken once
        first, second = allowed[drawn // len(allowed)], allowed[drawn % len(allowed)]
        stacked = np.stack([images[first], images[second]], axis=1).astype(np.float32)
        parts += [torch.from_numpy(stacked), torch.from_numpy((labels[first] + labels[second]) % level)]
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
    return _task(images[chosen, None], labels[chosen].astype(np.int64), samples, level)


def teacher(level: int, samples: int, generator: np.random.Generator) -> Task:
    """The zoo's synthetic teacher with α = `level`: folded class boundaries, of which a linear readout does a part."""
    from walkback.lab.zoo.datasets.synthetic_teacher import load

    seed = int(generator.integers(2**31))
    drawn = load(alpha=float(level), samples=max(1000, 5 * TEST_SAMPLES, samples + TEST_SAMPLES), seed=seed)
    inputs = torch.cat([drawn.train.inputs, drawn.test.inputs]).numpy().astype(np.float64)
    labels = torch.cat([drawn.train.labels, drawn.test.labels]).numpy()
    return _task(inputs[: samples + TEST_SAMPLES], labels[: samples + TEST_SAMPLES], samples, drawn.classes)


LETTERS, LENGTH = 12, 16


def text(level: int, samples: int, generator: np.random.Generator) -> Task:
    """Strings of 16 letters of 12; the class says whether exactly one of two words, pairs of letters, occurs in them.

    `level` 1: each word is one letter anywhere; 2: two letters side by side. Words are planted so that the four cases
    are equally frequent: either word alone tells nothing.
    """
    count = samples + TEST_SAMPLES
    wanted = generator.integers(2, size=(2, count))
    filler = np.arange(2 * level, LETTERS)
    strings = generator.choice(filler, size=(count, LENGTH))
    words = np.arange(2 * level).reshape(2, level)
    for number in range(count):
        starts = generator.choice(LENGTH // 2, size=2, replace=False) * 2
        for word in range(2):
            if wanted[word, number]:
                strings[number, starts[word] : starts[word] + level] = words[word]
    return _task(strings.astype(np.float64), (wanted[0] ^ wanted[1]).astype(np.int64), samples, 2)


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
    drawn = maker_of(config.task).make(config.level, config.samples, generator)
    held = set(hashes(drawn.test_inputs))
    fresh = torch.tensor([key not in held for key in hashes(drawn.train_inputs)])
    return drawn.with_training(drawn.train_inputs[fresh], drawn.train_labels[fresh])


def hashes(inputs: Tensor) -> list[bytes]:
    """One BLAKE2 hash of 16 bytes per sample, of its float32 values."""
    rows = inputs.to(torch.float32).contiguous().numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
