"""LeNet-5 with ReLU and max-pooling, as small convolutional benchmarks of feedback methods have it.

    x, resized to 32 × 32; conv 5×5 to 6, pool; conv 5×5 to 16, pool; conv 5×5 to 120; FC 84; linear head

Each convolution with what follows it is a block, and so is the FC layer; the stem resizes and has nothing to learn.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.images import AsImage, square_image
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.small_cnn import Stage, channels_last
from walkback.lab.zoo.contract import BlockModel, DataSpec
from walkback.lab.zoo.options import require_at_least

SIDE = 32


class Resized(nn.Module):
    """(B, C, S, S) → (B, C, 32, 32), bilinear; an image of that side stays as it is."""

    def forward(self, images: Tensor) -> Tensor:
        """The images in the side that the convolutions are made for."""
        if images.shape[-1] == SIDE:
            return images
        return F.interpolate(images, size=(SIDE, SIDE), mode="bilinear", antialias=True)


@normalised_by("no norm")
def lenet(data: DataSpec, *, channels: Sequence[int] = (6, 16, 120), fc_width: int = 84) -> BlockModel:
    """Three convolutions of 5 × 5 with these channels, an FC layer, and a linear head.

    Images are square, of any side; a flat input of s² values is read as one channel, s × s.
    """
    image_channels, side = square_image("lenet", data)
    if len(channels) != 3:
        raise InputError(f"architecture lenet: channels is {channels!r}; expected three numbers, one per convolution.")
    require_at_least("architecture lenet", 1, channels=min(channels), fc_width=fc_width)
    first, second, third = channels
    blocks = [
        Stage(nn.Sequential(nn.Conv2d(image_channels, first, 5), nn.ReLU(), nn.MaxPool2d(2))),
        Stage(nn.Sequential(nn.Conv2d(first, second, 5), nn.ReLU(), nn.MaxPool2d(2))),
        Stage(nn.Sequential(nn.Conv2d(second, third, 5), nn.ReLU())),
        Stage(nn.Sequential(nn.Flatten(), nn.Linear(third, fc_width), nn.ReLU())),
    ]
    stem = nn.Sequential(AsImage(image_channels, side), Resized())
    return channels_last(BlockModel(stem, blocks, nn.Linear(fc_width, data.classes), data))
