"""Seeds for each part of a run, derived from the one seed of its config."""

from __future__ import annotations

import hashlib
from typing import Literal

Purpose = Literal["weights", "feedback", "data", "training", "rerandomised blocks", "functional tests", "labels"]
"""`weights`: the model's initial weights. `feedback`: the method's matrices and predictors. `data`: the order
and the augmentation of the batches, and random targets. `training`: torch's global generator while training.
`rerandomised blocks`: the tests of depth. `functional tests`: the directions in which credit is tested.
`labels`: the order of permuted targets."""


def derived_seed(seed: int, purpose: Purpose) -> int:
    """A seed for one purpose, from the SHA-256 of both: parts of a run share no random numbers.

    Two runs that differ in method or freezing alone start from the same weights and see the same batches; where
    they differ in targets alone, the same inputs.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
