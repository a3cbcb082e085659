"""Shells: four classes by the distance from the origin in a hidden subspace of Gaussian inputs; made here.

    x ~ N(0, I_64), twice as wide in a random subspace U of `level` dimensions;  y = quarter of ‖Uᵀx‖

The shells are equally frequent, and every one lies around the origin on all sides, so a linear readout of x stays at
chance.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from walkback.lab.zoo.datasets.drawn import TEST_SAMPLES, Task, check_drawn, task_from, vectors_from
from walkback.lab.zoo.datasets.splits import Dataset

LEVELS = (1, 32)
DIMENSIONS = 64


def load(root: Path | str | None = None, *, level: int = 3, samples: int = 8192, seed: int = 0) -> Dataset:
    """`level` is the size of the subspace, 1 to 32; `samples` are of the training split, and 1,280 more are tested on.

    `root` is accepted, as by every data set, and not needed.
    """
    del root
    check_drawn("shells", level, LEVELS, samples, seed)
    return vectors_from("shells", shells, level, samples, seed)


def shells(level: int, samples: int, generator: np.random.Generator) -> Task:
    """Classes by how far x lies from the origin in a random subspace of `level` of 64 dimensions; four equal shells."""
    plane = np.linalg.qr(generator.standard_normal((DIMENSIONS, level)))[0]
    inputs = generator.standard_normal((samples + TEST_SAMPLES, DIMENSIONS))
    inputs += inputs @ plane @ plane.T  # the subspace is twice as wide, so that it can be found
    radius = np.linalg.norm(inputs @ plane, axis=1)
    labels = np.searchsorted(np.quantile(radius, (0.25, 0.5, 0.75)), radius)
    return task_from(inputs, labels.astype(np.int64), samples, 4)
