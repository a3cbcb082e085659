"""A plain MLP: Linear and ReLU, layer after layer, without skips and without norms."""

from __future__ import annotations

import torch
from torch import nn

from walkback.lab import BlockModel, DataSpec, SkiplessBlock


class Layer(SkiplessBlock):
    """h_l = relu(W h_{l−1} + b)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def branch(self, hidden):
        """What the layer writes."""
        return torch.relu(self.linear(hidden))


def plain_mlp(data: DataSpec, *, width: int = 64, depth: int = 3) -> BlockModel:
    """Any input is flattened; `depth` layers of `width` units, and a linear head."""
    stem = nn.Sequential(nn.Flatten(), nn.Linear(data.features, width))
    return BlockModel(stem, [Layer(width) for _ in range(depth)], nn.Linear(width, data.classes), data)
