"""Product: elements of a group, coded as a sum of random vectors, and their product as the class; made here.

    x = Σ_i E_i[a_i] + noise in 64 dimensions;  y = a_1 · a_2 · … · a_level

The a_i are permutations of three things, and the E_i random. Given all of them but one, every class is equally likely,
so no sum over positions tells anything: the rule has to be composed. A network may read x as an image of 8 × 8.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from walkback.lab.zoo.datasets.drawn import TEST_SAMPLES, Labels, Task, check_drawn, task_from, vectors_from
from walkback.lab.zoo.datasets.splits import Dataset

LEVELS = (2, 16)
ELEMENTS, DIMENSIONS, NOISE = 6, 64, 0.25


def load(root: Path | str | None = None, *, level: int = 3, samples: int = 8192, seed: int = 0) -> Dataset:
    """`level` is the number of factors, 2 to 16; `samples` are of the training split, and 1,280 more are tested on.

    `root` is accepted, as by every data set, and not needed.
    """
    del root
    check_drawn("product", level, LEVELS, samples, seed)
    return vectors_from("product", product, level, samples, seed)


def product(level: int, samples: int, generator: np.random.Generator) -> Task:
    """`level` elements of the group of permutations of three things, the class being their product."""
    elements = generator.integers(ELEMENTS, size=(samples + TEST_SAMPLES, level))
    codes = generator.standard_normal((level, ELEMENTS, DIMENSIONS)) / np.sqrt(level)
    noise = NOISE * generator.standard_normal((len(elements), DIMENSIONS))
    inputs = sum((codes[place][elements[:, place]] for place in range(level)), noise)
    table, result = multiplication_table(), elements[:, 0]
    for place in range(1, level):
        result = table[result, elements[:, place]]
    return task_from(np.asarray(inputs), result.astype(np.int64), samples, ELEMENTS)


def multiplication_table() -> Labels:
    """Of the permutations of three things, (6, 6)."""
    members = list(itertools.permutations(range(3)))
    return np.array([[members.index(tuple(a[b[i]] for i in range(3))) for b in members] for a in members])
