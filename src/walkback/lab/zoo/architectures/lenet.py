"""LeNet-5 with ReLU and max-pooling, as small convolutional benchmarks of feedback methods have it.

    x, resized to 32 × 32; conv 5×5 to 6, pool; conv 5×5 to 16, pool; conv 5×5 to 120; FC 84; linear head

Each convolution with what follows it is a block, and so is the FC layer; the stem resizes and has nothing to learn.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.zoo.architectures.images import AsImage, square_image
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.small_cnn import Stage, channels_last
from walkback.lab.zoo.contract import BlockModel, DataSpec

SIDE = 32


class Resized(nn.Module):
    """(B, C, S, S) → (B, C, 32, 32), bilinear; an image of that side stays as it is."""

    def forward(self, images: Tensor) -> Tensor:
        """The images in the side that the convolutions are made for."""
        if images.shape[-1] == SIDE:
            return images
        return F.interpolate(images, size=(SIDE, SIDE), mode="bilinear", antialias=True)


@normalised_by("no norm")
def lenet(data: DataSpec) -> BlockModel:
    """Three convolutions of 5 × 5 with 6, 16 and 120 channels, an FC layer of 84, and a linear head.

    Images are square, of any side; a flat input of s² values is read as one channel, s × s.
    """
    channels, side = square_image("lenet", data)
    blocks = [
        Stage(nn.Sequential(nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2))),
        Stage(nn.Sequential(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))),
        Stage(nn.Sequential(nn.Conv2d(16, 120, 5), nn.ReLU())),
        Stage(nn.Sequential(nn.Flatten(), nn.Linear(120, 84), nn.ReLU())),
    ]
    stem = nn.Sequential(AsImage(channels, side), Resized())
    return channels_last(BlockModel(stem, blocks, nn.Linear(84, data.classes), data))
