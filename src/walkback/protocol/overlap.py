"""Test samples that were trained on: exact duplicates, found by a hash of each sample's inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BatchError
from walkback.protocol.batches import Batch, read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.records import Overlap

MOST_EXAMPLES = 8


def sample_hashes(batch: Batch) -> list[bytes]:
    """A hash of the inputs of each sample, of every tensor that has one entry for each; labels are not part of it."""
    own = [_rows(tensor, batch.size) for tensor in Batch(batch.inputs, batch.targets).tensors()]
    columns = [rows for rows in own if rows is not None]
    if not columns:
        raise BatchError(
            f"no input of a batch has one entry for each of its {batch.size} samples, so samples cannot be compared. "
            "Leave train_batches out."
        )
    hashers = [hashlib.blake2b(digest_size=16) for _ in range(batch.size)]
    for rows in columns:
        for hasher, row in zip(hashers, rows, strict=True):
            hasher.update(row.tobytes())
    return [hasher.digest() for hasher in hashers]


def _rows(tensor: Tensor, size: int) -> Any:
    """The bytes of each sample, along whichever of the two leading axes counts them; None where neither does."""
    axis = next((axis for axis in range(min(2, tensor.ndim)) if tensor.shape[axis] == size), None)
    if axis is None:
        return None
    rows = tensor.detach().movedim(axis, 0).reshape(size, -1).contiguous()
    # As bytes: bfloat16 has no counterpart in numpy.
    return rows.view(torch.uint8).cpu().numpy() if rows.numel() else rows.cpu().to(torch.uint8).numpy()


class OverlapMeter:
    """The hashes of the training samples, and which test samples are among them."""

    def __init__(self, train_batches: Iterable[Any], model: nn.Module, calling: Calling) -> None:
        self.trained: dict[bytes, tuple[int, Any]] = {}
        self.train_samples = 0
        for batch in read_batches(train_batches, model, calling=calling, name="train_batches"):
            for digest, label in zip(sample_hashes(batch), batch.targets.tolist(), strict=True):
                self.trained.setdefault(digest, (self.train_samples, label))
                self.train_samples += 1
        self.tested = self.same_label = 0
        self.pairs: list[tuple[int, int]] = []
        self.count = 0

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
        return {
            "overlap": Overlap(
                test_samples=self.tested, train_samples=self.train_samples, count=self.count,
                same_label=self.same_label, examples=tuple(self.pairs),
            ),
        }  # fmt: skip
