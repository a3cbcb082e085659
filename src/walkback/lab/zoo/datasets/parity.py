"""Parity: the product of the signs of a few random projections of Gaussian inputs; it needs depth, and is made here.

    x ~ N(0, I_20);  y = [Π_i sign(⟨u_i, x⟩) > 0],  u_1 … u_level orthonormal

Samples within 0.4 of a boundary are left out. Given all signs but one, both classes are equally likely, so a linear
readout of x stays at chance from level 2 on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from walkback.lab.zoo.datasets.drawn import TEST_SAMPLES, Floats, Task, check_drawn, task_from, vectors_from
from walkback.lab.zoo.datasets.splits import Dataset

LEVELS = (2, 10)
DIMENSIONS, MARGIN, SCALE = 20, 0.4, 1.5


def load(root: Path | str | None = None, *, level: int = 3, samples: int = 8192, seed: int = 0) -> Dataset:
    """`level` is the number of signs, 2 to 10; `samples` are of the training split, and 1,280 more are tested on.

    `root` is accepted, as by every data set, and not needed.
    """
    del root
    check_drawn("parity", level, LEVELS, samples, seed)
    return vectors_from("parity", parity, level, samples, seed)


def parity(level: int, samples: int, generator: np.random.Generator) -> Task:
    """The product of the signs of `level` random projections of x ~ N(0, I_20), samples near a boundary left out."""
    directions = np.linalg.qr(generator.standard_normal((DIMENSIONS, level)))[0]
    inputs, sides = _away_from_boundaries(directions, samples + TEST_SAMPLES, generator)
    return task_from(inputs, (sides.prod(axis=1) > 0).astype(np.int64), samples, 2)


def _away_from_boundaries(directions: Floats, count: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Inputs whose projections all lie 0.4 or more from 0, and the signs of these projections."""
    kept: list[Floats] = []
    while sum(map(len, kept)) < count:
        drawn = generator.standard_normal((4 * count, len(directions)))
        kept.append(drawn[(np.abs(drawn @ directions) > MARGIN).all(axis=1)])
    inputs = np.concatenate(kept)[:count]
    return inputs * SCALE, np.sign(inputs @ directions)
