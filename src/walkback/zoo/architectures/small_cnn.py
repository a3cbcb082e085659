"""SmallCNN: three convolutional stages and a fully connected layer, with no skips and no terminal norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.zoo.architectures.images import AsImage, square_image
from walkback.zoo.contract import Block, BlockModel, DataSpec
from walkback.zoo.options import require_at_least

STAGES = 3


class SkiplessBlock(Block):
    """A block that replaces its input: h_l = f(h_{l−1}), so its branch is its output."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.body(hidden)  # type: ignore[no-any-return]

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The branch alone."""
        return branch


def conv_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """conv 3×3, BatchNorm, ReLU, max-pool: (B, C, S, S) → (B, C', ⌊S/2⌋, ⌊S/2⌋)."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def small_cnn(data: DataSpec, *, channels: Sequence[int] = (32, 64, 128), fc_width: int = 256) -> BlockModel:
    """stage 1 (the stem), stage 2, stage 3, FC with ReLU, linear head; a site after each but the head.

    Every stage halves the side, so it must be 8 or more; a flat input of s² values is read as one channel,
    s × s.
    """
    image_channels, side = square_image("small_cnn", data)
    if len(channels) != STAGES:
        raise InputError(f"architecture small_cnn: channels is {channels!r}; expected three numbers, one per stage.")
    first, second, third = channels
    require_at_least("architecture small_cnn", 1, channels=min(channels), fc_width=fc_width)
    if side < 2**STAGES:
        raise InputError(
            f"architecture small_cnn got images of side {side}; expected 8 or more, because each of three "
            "stages halves it. Use resmlp for smaller ones."
        )
    flattened = third * (side // 2**STAGES) ** 2
    blocks = [
        SkiplessBlock(conv_stage(first, second)),
        SkiplessBlock(conv_stage(second, third)),
        SkiplessBlock(nn.Sequential(nn.Flatten(), nn.Linear(flattened, fc_width), nn.ReLU())),
    ]
    stem = nn.Sequential(AsImage(image_channels, side), conv_stage(image_channels, first))
    model = BlockModel(stem, blocks, nn.Linear(fc_width, data.classes), data)
    # Convolutions on the CPU are faster on values whose channels lie side by side; nothing else changes.
    return model.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]
