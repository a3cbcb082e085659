"""Test samples that were trained on: exact duplicates, found by a hash of each sample's inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from walkback.jax.batches import Batch, read_batches
from walkback.protocol.records import Overlap

MOST_EXAMPLES = 8


def sample_hashes(batch: Batch) -> list[bytes]:
    """A hash of the inputs of each sample; labels are not part of it."""
    hashers = [hashlib.blake2b(digest_size=16) for _ in range(batch.size)]
    for leaf in jax.tree.leaves(batch.inputs):
        for hasher, row in zip(hashers, np.ascontiguousarray(leaf), strict=True):
            hasher.update(row.tobytes())
    return [hasher.digest() for hasher in hashers]


class OverlapMeter:
    """The hashes of the training samples, and which test samples are among them."""

    def __init__(self, train_batches: Iterable[Any]) -> None:
        self.trained: dict[bytes, tuple[int, Any]] = {}
        self.train_samples = self.tested = self.same_label = self.count = 0
        self.pairs: list[tuple[int, int]] = []
        for batch in read_batches(train_batches, name="train_batches"):
            for digest, label in zip(sample_hashes(batch), batch.targets.tolist(), strict=True):
                self.trained.setdefault(digest, (self.train_samples, label))
                self.train_samples += 1

    def watching(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches, looked at as they pass."""
        for batch in batches:
            for digest, label in zip(sample_hashes(batch), batch.targets.tolist(), strict=True):
                self._look(digest, label)
            yield batch

    def _look(self, digest: bytes, label: Any) -> None:
        if digest in self.trained:
            place, there = self.trained[digest]
            self.count += 1
            self.same_label += label == there
            if len(self.pairs) < MOST_EXAMPLES:
                self.pairs.append((self.tested, place))
        self.tested += 1

    def fields(self) -> dict[str, Any]:
        """What was found, as a field of `Measurements`."""
        counts = {"test_samples": self.tested, "train_samples": self.train_samples, "count": self.count}
        return {"overlap": Overlap(**counts, same_label=self.same_label, examples=tuple(self.pairs))}
