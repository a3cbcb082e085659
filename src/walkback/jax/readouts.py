"""What linear readouts are fitted on: the sites of the caller's own batches, in fp64 and of a bounded width."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkback.jax.capture import Capture
from walkback.jax.losses import IGNORED, Answers
from walkback.jax.numbers import Array, Doubles, doubles
from walkback.protocol.readout_fields import MOST_SAMPLES, MOST_WIDTH, POOLED_SIDE, SEED, readout_fields


def features(site: Array, channels_first: bool) -> Doubles:
    """One fp64 vector per sample: (B, d) as is, (B, T, d) the first token and the mean token side by side, images
    averaged to 2 × 2, anything else flattened."""
    wide = doubles(site)
    if wide.ndim == 3:
        return np.concatenate([wide[:, 0], wide.mean(axis=1)], axis=1)
    if wide.ndim == 4:
        wide = _pooled(wide if channels_first else np.moveaxis(wide, 3, 1))
    return wide.reshape(len(wide), -1)


def _pooled(images: Doubles) -> Doubles:
    """(B, C, H, W) → (B, C, 2, 2): means over parts that overlap by a row where a side is odd."""
    for axis in (2, 3):
        size = images.shape[axis]
        ends = [(p * size // POOLED_SIDE, -(-(p + 1) * size // POOLED_SIDE)) for p in range(POOLED_SIDE)]
        parts = [images.take(range(*end), axis=axis).mean(axis=axis) for end in ends]
        images = np.stack(parts, axis=axis)
    return images


def reduced(rows: Doubles, most: int = MOST_WIDTH) -> Doubles:
    """Rows of at most this width: every entry goes, with a random sign, to one of the new ones (a count sketch)."""
    width = rows.shape[1]
    if width <= most:
        return rows
    drawn = np.random.default_rng(SEED)
    place, sign = drawn.integers(0, most, width), 2.0 * drawn.integers(0, 2, width) - 1
    found = np.zeros((most, len(rows)))
    np.add.at(found, place, (rows * sign).T)
    return np.ascontiguousarray(found.T)


class ReadoutMeter:
    """Features of every site, batch after batch, and in the end one readout for each."""

    def __init__(self, channels_first: bool = False) -> None:
        self.channels_first = channels_first
        self.sites: list[list[Doubles]] = []
        self.right: list[NDArray[np.bool_]] = []
        self.labels: list[NDArray[np.int64]] = []
        self.widths: tuple[int, ...] = ()
        self.samples, self.classes, self.unavailable = 0, 0, ""

    def add(self, seen: Capture) -> None:
        """Take the features of a batch, as long as there are not enough samples."""
        room = MOST_SAMPLES - self.samples
        if self.unavailable or room <= 0:
            return
        if seen.classes is None or seen.classes.ndim != 1:
            self.unavailable = "Readouts need one class for each sample as its target."
            return
        scored, answers = seen.classes != IGNORED, Answers.of(seen.logits, seen.classes)
        rows = [features(hidden, self.channels_first)[scored][:room] for hidden in seen.hiddens]
        self.widths = tuple(row.shape[1] for row in rows)
        self.sites.append([reduced(row) for row in rows])
        self.right.append(answers.right[:room])
        self.labels.append(answers.labels[:room])
        self.samples += len(answers.labels[:room])
        self.classes = max(self.classes, seen.logits.shape[1])

    def fields(self) -> dict[str, Any]:
        """The readouts, as a field of `Measurements`; or why there are none."""
        if self.unavailable:
            return {"no_readouts": self.unavailable}
        sites = [np.concatenate(parts) for parts in zip(*self.sites, strict=True)]
        right, labels = np.concatenate(self.right), np.concatenate(self.labels)
        return readout_fields(sites, right, labels, self.classes, self.widths)
