"""Two words: strings of 16 letters of 12, and whether exactly one of two short words occurs in them; made here.

The class is an exclusive or: words are planted so that the four cases are equally frequent, and either word alone
tells nothing. A network reads each letter as one of twelve ones, 192 values in all.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from walkback.lab.zoo.datasets.drawn import TEST_SAMPLES, Labels, Task, check_drawn, task_from, vectors_from
from walkback.lab.zoo.datasets.splits import Dataset

LEVELS = (1, 2)
LETTERS, LENGTH = 12, 16


def load(root: Path | str | None = None, *, level: int = 2, samples: int = 8192, seed: int = 0) -> Dataset:
    """`level` is the length of the words, 1 or 2; `samples` are of the training split, and 1,280 more are tested on.

    `root` is accepted, as by every data set, and not needed.
    """
    del root
    check_drawn("two_words", level, LEVELS, samples, seed)
    return vectors_from("two_words", _as_ones, level, samples, seed)


def _as_ones(level: int, samples: int, generator: np.random.Generator) -> Task:
    strings, labels = two_words(level, samples + TEST_SAMPLES, generator)
    return task_from(np.eye(LETTERS)[strings].reshape(len(strings), -1), labels, samples, 2)


def two_words(level: int, count: int, generator: np.random.Generator) -> tuple[Labels, Labels]:
    """Strings (N, 16) of letters as codes, and the class of each.

    `level` 1: each word is one letter anywhere; 2: two letters side by side.
    """
    wanted = generator.integers(2, size=(2, count))
    filler = np.arange(2 * level, LETTERS)
    strings = generator.choice(filler, size=(count, LENGTH))
    words = np.arange(2 * level).reshape(2, level)
    for number in range(count):
        starts = generator.choice(LENGTH // 2, size=2, replace=False) * 2
        for word in range(2):
            if wanted[word, number]:
                strings[number, starts[word] : starts[word] + level] = words[word]
    return strings, (wanted[0] ^ wanted[1]).astype(np.int64)
