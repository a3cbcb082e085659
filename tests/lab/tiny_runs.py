"""Runs that take a moment, and ways to interrupt and compare them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from walkback.lab.registry import ARCHITECTURES, METHODS
from walkback.lab.runs import checkpoint
from walkback.lab.runs.assembly import dataset_of
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.progress import EpochDone, Silent
from walkback.lab.runs.store import StoredRun
from walkback.lab.zoo import DataSpec, build_model

SMALL: dict[str, dict[str, Any]] = {
    "resmlp": {"width": 12, "depth": 2},
    "vit_mini": {"width": 12, "depth": 2, "heads": 2},
    "small_cnn": {"channels": [3, 4, 5], "fc_width": 7},
    "student_net": {"width": 12, "depth": 2},
    "small_resnet": {"channels": 4, "depth": 2},
    "mlp": {"widths": [12, 12]},
    "lenet": {"channels": [2, 3, 4], "fc_width": 5},
    "resnet": {"channels": 2, "blocks_per_stage": 1},
    "gpt": {"width": 12, "depth": 2, "heads": 2, "expansion": 2},
}
DATA: dict[str, dict[str, Any]] = {"gpt": {"data": "shakespeare", "data_options": {"context": 8}}}
"""What an architecture is trained on that does not read digits."""


def _verses(seed: int, characters: int = 1300) -> bytes:
    words = random.Random(seed).choices(("to", "be", "or", "not", "thou", "art,", "sir.\n"), k=characters)
    return " ".join(words).encode()[:characters]


WORKS = {f"play_{number}": _verses(number) for number in range(6)}
"""Small works in place of Shakespeare's, which a test does not fetch."""


def tiny(method: str = "dfa", architecture: str = "resmlp", **settings: Any) -> RunConfig:
    """A run on digits: two epochs of two steps each, unless told otherwise."""
    defaults: dict[str, Any] = {"data": "digits", "seed": 7, "epochs": 2, "batch_size": 640, "learning_rate": 0.01}
    options = {"architecture_options": SMALL[architecture]} if architecture in SMALL else {}
    options |= DATA.get(architecture, {})
    return RunConfig(method=method, architecture=architecture, **(defaults | options | settings))


DIGITS = DataSpec((1, 8, 8), 10)
LETTERS = len(set(b"".join(WORKS.values())))
VERSES = DataSpec((8,), LETTERS, vocabulary=LETTERS, target_shape=(8,))


def pairs() -> list[tuple[str, str]]:
    """Every method with every architecture that it is defined on."""
    of = {name: VERSES if name in DATA else DIGITS for name in ARCHITECTURES}
    models = {name: build_model(name, of[name], **SMALL.get(name, {})) for name in ARCHITECTURES}
    return [(method, name) for method in METHODS for name in models if not METHODS.load(method).why_not(models[name])]


class Snapshot(Silent):
    """Copies the store when an epoch is done, as a process killed right then would have left it."""

    def __init__(self, store: Path, copy: Path, epoch: int) -> None:
        self.store, self.copy, self.epoch = store, copy, epoch

    def epoch_done(self, event: EpochDone) -> None:
        if event.record.epoch == self.epoch:
            shutil.copytree(self.store, self.copy)


class InterruptAfter(Silent):
    """Presses Ctrl-C when an epoch is done."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def epoch_done(self, event: EpochDone) -> None:
        if event.record.epoch == self.epoch:
            raise KeyboardInterrupt


SHAPES = {
    "cifar10": DataSpec((3, 32, 32), 10),
    "mnist": DataSpec((1, 28, 28), 10),
    "fashion_mnist": DataSpec((1, 28, 28), 10),
}
"""Of the data sets that a test does not fetch."""


def assert_can_be_built(configs: Iterable[RunConfig]) -> None:
    """Every distinct network of these runs can be made for its data; weights that nobody reads are not drawn."""
    distinct = {(c.architecture, c.data, json.dumps([c.architecture_options, c.data_options])): c for c in configs}
    for config in distinct.values():
        data = SHAPES.get(config.data) or dataset_of(config).spec
        with torch.device("meta"):
            build_model(config.architecture, data, **config.architecture_options)


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what may differ between two equal runs."""
    kept = {name: value for name, value in result.items() if name not in ("seconds", "date", "commit")}
    kept["trace"] = [{k: v for k, v in line.items() if k != "seconds"} for line in result["trace"]]
    return kept


def assert_same_run(one: StoredRun, other: StoredRun) -> None:
    """Equal results, and equal last checkpoints to the last bit, random states included."""
    assert without_times(one.result()) == without_times(other.result())
    first, second = checkpoint.newest(one.checkpoints), checkpoint.newest(other.checkpoints)
    assert first is not None
    assert second is not None
    assert first.epoch == second.epoch
    assert first.random_words == second.random_words
    assert first.tensors.keys() == second.tensors.keys()
    assert all(tensor.equal(second.tensors[name]) for name, tensor in first.tensors.items())


def lines_of(run: StoredRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.trace_file.read_text().splitlines()]
