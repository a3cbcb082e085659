"""Which samples a run trains on, which its epochs are measured on, and which its result: so that tests stay unread.

A run without a validation share is measured on the test split throughout, as runs always were. With one, that share of
the training split is cut off, the same samples in every run on the same data. Epochs are measured on them; the test
split is read once, after the last step, or never where the run is not `tested`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import torch

from walkback.errors import InputError
from walkback.lab.runs.config import RunConfig
from walkback.lab.zoo.datasets import Dataset, Split

VALIDATION_SEED = 20_260
"""Which samples are cut off depends on it, on their number and on the share; on no seed of a run."""
NOT_TESTED = "the run chooses a setting: its validation samples are scored, and nothing else is measured"


@dataclass(frozen=True)
class Splits:
    """The two data sets that a run is made of; both have the samples that it trains on."""

    during: Dataset
    """Its `test` is what every epoch is measured on."""
    at_the_end: Dataset
    """Its `test` is what the result is of."""
    cut: dict[str, Any] | None = None
    """What was cut off; None where nothing was."""
    tested: bool = True

    def recorded(self) -> dict[str, Any]:
        """What a result says of it: nothing where nothing was cut off."""
        if self.cut is None:
            return {}
        return {"validation": self.cut, "test_reads": 1 if self.tested else 0}


def splits_of(config: RunConfig, dataset: Dataset) -> Splits:
    """The data sets of a run."""
    if not config.validation:
        return Splits(dataset, dataset)
    kept, held = validation_indices(len(dataset.train), config.validation, dataset.name)
    train = _of(dataset.train, kept)
    during = replace(dataset, train=train, test=_of(dataset.train, held))
    cut = {
        "share": config.validation,
        "seed": VALIDATION_SEED,
        "samples": len(held),
        "digest": hashlib.sha256(held.numpy().tobytes()).hexdigest()[:16],
    }
    return Splits(during, replace(dataset, train=train) if config.tested else during, cut, config.tested)


def validation_indices(count: int, share: float, name: str = "the data set") -> tuple[torch.Tensor, torch.Tensor]:
    """Of so many training samples, those that are trained on and those that are cut off, each in order."""
    held = round(share * count)
    if not 0 < held < count:
        raise InputError(f"{name}: a validation share of {share:g} of {count} samples leaves one side without any.")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(VALIDATION_SEED))
    return order[held:].sort().values, order[:held].sort().values


def _of(split: Split, chosen: torch.Tensor) -> Split:
    return replace(split, inputs=split.inputs[chosen], labels=split.labels[chosen])
