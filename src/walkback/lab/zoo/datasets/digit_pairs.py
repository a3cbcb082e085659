"""Digit pairs: two handwritten digits side by side, and the sum of both modulo `level` as the class; made here.

One digit per channel, 8 × 8, from the data set `digits` and its fixed split: no test image is in a training pair.
Either digit alone tells nothing of the class, so both have to be read and the sum composed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from walkback.lab.zoo.datasets.digits import PREPARATION as OF_ONE
from walkback.lab.zoo.datasets.digits import load as load_digits
from walkback.lab.zoo.datasets.drawn import TEST_SAMPLES, Labels, check_drawn
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, Split

LEVELS = (2, 10)
PREPARATION = Preparation(mean=2 * OF_ONE.mean, std=2 * OF_ONE.std)


def load(root: Path | str | None = None, *, level: int = 4, samples: int = 8192, seed: int = 0) -> Dataset:
    """Digits below `level`, 2 to 10; `samples` pairs of the training split, or as many as there are, and 1,280 tested.

    `root` is accepted, as by every data set, and not needed.
    """
    del root
    check_drawn("digit_pairs", level, LEVELS, samples, seed)
    digits, generator = load_digits(), np.random.default_rng(seed)
    train = _paired(digits.train, level, samples, generator)
    test = _paired(digits.test, level, TEST_SAMPLES, generator)
    return Dataset("digit_pairs", train, test, tuple(f"sum {label}" for label in range(level)))


def _paired(digits: Split, level: int, count: int, generator: np.random.Generator) -> Split:
    first, second, sums = draw_pairs(digits.labels.numpy(), level, count, generator)
    images = torch.cat([digits.inputs[torch.from_numpy(side)] for side in (first, second)], dim=-1)
    return Split(images, torch.from_numpy(sums), PREPARATION)


def draw_pairs(labels: Labels, level: int, count: int, generator: np.random.Generator) -> tuple[Labels, Labels, Labels]:
    """Pairs of samples whose labels are below `level`: the first of each, the second, and their sum modulo `level`."""
    allowed = np.flatnonzero(labels < level)
    total = len(allowed) ** 2
    drawn = generator.choice(total, size=min(count, total), replace=False)  # a pair is taken once
    first, second = allowed[drawn // len(allowed)], allowed[drawn % len(allowed)]
    return first, second, (labels[first] + labels[second]) % level
