"""Batches from memory: whole-batch crop, flip and normalisation, with no worker processes.

Everything random in epoch e depends on (seed, e) alone, and is drawn on the CPU whatever the device: a run
that is resumed at an epoch sees the batches that it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.zoo.datasets.splits import Dataset, Preparation, Split

Batch = tuple[Tensor, Tensor]
"""Network inputs, float32 (B, C, H, W) or (B, D), or int64 tokens (B, T); and int64 labels, (B,) or (B, T)."""


class Batches:
    """The batches of any epoch of a split.

    `augment` crops and flips as far as the split's preparation says; a set that declares neither is left as
    it is. `random_labels` is a number of classes: the labels are then drawn from them, uniformly and anew for every
    batch, and the split's own are not read; the inputs are those of the same batches with their own labels. The
    split is moved to `device` once, where one is given, and batches are made there.
    """

    def __init__(
        self,
        split: Split,
        batch_size: int,
        *,
        seed: int = 0,
        augment: bool = False,
        shuffle: bool = False,
        drop_last: bool = False,
        random_labels: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        _check_size(batch_size, "batch size")
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed is {seed!r}; expected a whole number, 0 or more.")
        if drop_last and batch_size > len(split):
            raise InputError(
                f"batches of {batch_size} from {len(split)} samples with drop_last leave none. "
                "Make them smaller, or keep the last one."
            )
        if random_labels is not None:
            _check_size(random_labels, "number of classes to draw labels from")
        self.batch_size, self.seed, self.random_labels = batch_size, seed, random_labels
        self.augment, self.shuffle, self.drop_last = augment, shuffle, drop_last
        self._split = split.to(device)

    def __len__(self) -> int:
        whole, rest = divmod(len(self._split), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch, the same each time they are asked for."""
        if number < 0:
            raise InputError(f"epoch {number} was asked for; epochs count from 0.")
        return self._batches(self._draw(number))

    def _draw(self, number: int) -> _Draws:
        """All that is random in one epoch, from a generator of its own."""
        state = np.random.SeedSequence([self.seed, number]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(state[0]) >> 1)
        count, preparation = len(self._split), self._split.preparation
        order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        crop = preparation.crop if self.augment else 0
        offsets = torch.randint(0, 2 * crop + 1, (2, count), generator=generator) if crop else None
        flip = preparation.flip and self.augment
        flipped = torch.randint(0, 2, (count,), generator=generator).bool() if flip else None
        # Last, so that what is drawn before it, and with it the inputs, is the same without it.
        classes = self.random_labels
        shape = (count, *self._split.target_shape)
        labels = None if classes is None else torch.randint(0, classes, shape, generator=generator)
        return _Draws(order, offsets, flipped, labels).to(self._split.labels.device)

    def _batches(self, draws: _Draws) -> Iterator[Batch]:
        split = self._split
        for index in range(len(self)):
            part = slice(index * self.batch_size, (index + 1) * self.batch_size)
            chosen = draws.order[part]
            stored = split.inputs.index_select(0, chosen)
            if draws.offsets is not None or draws.flipped is not None:
                stored = _windows(stored, split.preparation.crop, draws.offsets, draws.flipped, part)
            labels = split.labels.index_select(0, chosen) if draws.labels is None else draws.labels[part]
            yield normalised(stored, split.preparation), labels


@dataclass(frozen=True)
class _Draws:
    """The order of an epoch (N,); for each place in it the crop's offsets (2, N), whether to flip, and the labels."""

    order: Tensor
    offsets: Tensor | None
    flipped: Tensor | None
    labels: Tensor | None

    def to(self, device: torch.device) -> _Draws:
        moved = (None if drawn is None else drawn.to(device) for drawn in (self.offsets, self.flipped, self.labels))
        return _Draws(self.order.to(device), *moved)


def _windows(images: Tensor, crop: int, offsets: Tensor | None, flipped: Tensor | None, part: slice) -> Tensor:
    """Cut from each padded image (B, H, W, C) its window, mirrored where it is to be.

    Crop and flip are one gather of pixels: a window's row r is the padded row `top + r`, its column c is
    `left + c`, or `left + W − 1 − c` when mirrored.
    """
    count, height, width, channels = images.shape
    device = images.device
    rows = torch.arange(height, device=device).expand(count, height)
    columns = torch.arange(width, device=device).expand(count, width)
    if flipped is not None:
        columns = torch.where(flipped[part, None], width - 1 - columns, columns)
    if offsets is not None:
        images = F.pad(images, (0, 0, crop, crop, crop, crop))
        rows, columns = rows + offsets[0, part, None], columns + offsets[1, part, None]
    padded_height, padded_width = images.shape[1:3]
    row_starts = (torch.arange(count, device=device)[:, None] * padded_height + rows) * padded_width
    pixels = (row_starts[:, :, None] + columns[:, None, :]).reshape(-1)
    # index_select on whole pixels is more than twice as fast as indexing with three index tensors.
    return images.view(-1, channels).index_select(0, pixels).view(count, height, width, channels)


def normalised(stored: Tensor, preparation: Preparation) -> Tensor:
    """Network inputs of stored samples: images `(x / 255 − mean) / std` as NCHW, vectors without 255; tokens as is."""
    if stored.dtype == torch.int64:
        return stored
    constants = _constants(preparation, stored.device)
    if stored.dtype != torch.uint8:
        return (stored - constants.mean) / constants.std
    planes = stored.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    return planes.mul_(constants.scale).sub_(constants.shift)


class _Constants(NamedTuple):
    """What samples are normalised by: vectors by the first two, images of bytes by the others, (C, 1, 1)."""

    mean: Tensor
    std: Tensor
    scale: Tensor
    shift: Tensor


@lru_cache(maxsize=32)
def _constants(preparation: Preparation, device: torch.device) -> _Constants:
    """Kept on the device: made for every batch, they would be moved there for every batch."""
    with torch.inference_mode(False):
        mean, std = (torch.tensor(each, device=device) for each in (preparation.mean, preparation.std))
        return _Constants(mean, std, (1 / (255 * std))[:, None, None], (mean / std)[:, None, None])


def evaluation_batches(
    split: Split, batch_size: int = 256, device: torch.device | str | None = None
) -> Iterator[Batch]:
    """Every sample once, in order and without augmentation; the last batch may be smaller. None: where the split is."""
    _check_size(batch_size, "batch size")
    device = split.labels.device if device is None else device
    return (
        (
            normalised(split.inputs[start : start + batch_size].to(device), split.preparation),
            split.labels[start : start + batch_size].to(device),
        )
        for start in range(0, len(split), batch_size)
    )


def held_out_batches(
    dataset: Dataset, count: int = 10, size: int = 128, device: torch.device | str | None = None
) -> list[Batch]:
    """The first `count` whole batches of the test split: the fixed data that diagnostics are measured on.

    A test split too small for that gives as many whole batches as it has; one too small for a single batch is
    refused.
    """
    _check_size(count, "number of batches")
    _check_size(size, "batch size")
    whole = min(count, len(dataset.test) // size)
    if whole == 0:
        raise InputError(
            f"{dataset.name} has {len(dataset.test)} test samples, fewer than one batch of {size}. "
            "Ask for a smaller size."
        )
    return list(evaluation_batches(dataset.test.take(whole * size), size, device))


def _check_size(value: int, what: str) -> None:
    if value < 1:
        raise InputError(f"the {what} is {value}; expected 1 or more.")
