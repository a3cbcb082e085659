"""Rings around one point, a class each; made on the spot, and no linear readout tells them apart."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from walkback.lab import Dataset, Preparation, Split

PREPARATION = Preparation(mean=(0.0,), std=(1.0,))  # the points are centred and of unit size already


def load(root: Path | str | None = None, *, samples: int = 1500, rings: int = 3) -> Dataset:
    """The rings, the same each time; the last fifth is the test split. `root` is where downloads would be kept."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(samples) % rings
    angle = 2 * math.pi * torch.rand(samples, generator=generator)
    radius = (1 + labels) / rings + 0.05 * torch.randn(samples, generator=generator)
    points = 1.5 * radius[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
    last = samples // 5
    train = Split(points[:-last], labels[:-last], PREPARATION)
    test = Split(points[-last:], labels[-last:], PREPARATION)
    return Dataset("rings", train, test, tuple(f"ring {number}" for number in range(rings)))
