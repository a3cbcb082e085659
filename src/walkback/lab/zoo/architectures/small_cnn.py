"""SmallCNN: three convolutional stages and a fully connected layer, with no skips and no terminal norm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.images import AsImage, square_image
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.contract import BlockModel, DataSpec, SkiplessBlock
from walkback.lab.zoo.options import require_at_least

STAGES = 3


class Stage(SkiplessBlock):
    """A block of layers in a row, which replaces its input."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.body(hidden)  # type: ignore[no-any-return]


def conv_stage(channels_in: int, channels_out: int, *, pool: bool = True) -> nn.Sequential:
    """conv 3×3, BatchNorm, ReLU and, if `pool`, max-pool: (B, C, S, S) → (B, C', ⌊S/2⌋, ⌊S/2⌋), else (B, C', S, S)."""
    layers = [
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, nn.MaxPool2d(2)) if pool else nn.Sequential(*layers)


@normalised_by("BatchNorm after each convolution; no terminal norm")
def small_cnn(
    data: DataSpec, *, channels: Sequence[int] = (32, 64, 128), fc_width: int = 256, pool_first: bool = True
) -> BlockModel:
    """stage 1 (the stem), stage 2, stage 3, FC with ReLU, linear head; a site after each but the head.

    A stage halves the side, so it must be 8 or more; without `pool_first` the first one does not, as in the source
    study (arXiv 2606.21126), and it must be 4 or more: on CIFAR-10 the FC then reads 128·8·8 = 8192 values. A flat
    input of s² values is read as one channel, s × s.
    """
    image_channels, side = square_image("small_cnn", data)
    if len(channels) != STAGES:
        raise InputError(f"architecture small_cnn: channels is {channels!r}; expected three numbers, one per stage.")
    first, second, third = channels
    require_at_least("architecture small_cnn", 1, channels=min(channels), fc_width=fc_width)
    flattened = third * _last_side(side, STAGES if pool_first else STAGES - 1) ** 2
    blocks = [
        Stage(conv_stage(first, second)),
        Stage(conv_stage(second, third)),
        Stage(nn.Sequential(nn.Flatten(), nn.Linear(flattened, fc_width), nn.ReLU())),
    ]
    stem = nn.Sequential(AsImage(image_channels, side), conv_stage(image_channels, first, pool=pool_first))
    return channels_last(BlockModel(stem, blocks, nn.Linear(fc_width, data.classes), data))


def _last_side(side: int, halvings: int) -> int:
    least = 1 << halvings
    if side < least:
        raise InputError(
            f"architecture small_cnn got images of side {side}; expected {least} or more, because {halvings} of "
            f"its {STAGES} stages halve it. Use resmlp for smaller ones."
        )
    return side // least


def channels_last(model: BlockModel) -> BlockModel:
    """The model with channels that lie side by side: convolutions on the CPU are faster, and nothing else changes."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]
