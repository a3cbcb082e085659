"""ResNet: the residual network for CIFAR of He et al. (2016), ResNet-20 as it stands, with BatchNorm.

Section 4.2 of Deep Residual Learning for Image Recognition: conv 3×3 of 16 channels; three stages of n blocks with 16,
32 and 64 channels, the first block of the second and of the third stage halving the side; the average over all pixels;
a linear readout. That makes 6n + 2 layers with weights.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.images import AsImage, square_image
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.small_cnn import channels_last
from walkback.lab.zoo.contract import MOST_BLOCKS, Block, BlockModel, DataSpec
from walkback.lab.zoo.options import require_at_least, require_at_most

STAGES = 3
SMALLEST_SIDE = 4


def conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without a bias, which the BatchNorm behind it would subtract; weight ~ N(0, 2/fan_in)."""
    conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    return conv


class BasicBlock(Block):
    """ReLU(s(h) + f(h)) with f(h) = BatchNorm(conv(ReLU(BatchNorm(conv(h))))), (B, C, S, S) → (B, C', S/stride, …).

    The shortcut s is the identity. Where the shape changes it is option A of the paper: every second pixel, and zeros
    in the channels that are new; it has no parameters.
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.stride, self.new_channels = stride, channels_out - channels_in
        self.conv1 = conv3x3(channels_in, channels_out, stride)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = conv3x3(channels_out, channels_out)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.activation = nn.ReLU()

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.norm2(self.conv2(self.activation(self.norm1(self.conv1(hidden)))))  # type: ignore[no-any-return]

    def shortcut(self, hidden: Tensor) -> Tensor:
        """s(h)."""
        if self.stride == 1 and not self.new_channels:
            return hidden
        return F.pad(hidden[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels))

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """ReLU of the sum."""
        return self.activation(self.shortcut(hidden) + branch)  # type: ignore[no-any-return]


@normalised_by("BatchNorm after each convolution; no terminal norm")
def resnet(data: DataSpec, *, blocks_per_stage: int = 3, channels: int = 16) -> BlockModel:
    """ResNet-(6n + 2) with n = `blocks_per_stage`: 20 with 3, 32 with 5, 56 with 9; a site behind stem and each block.

    The stages have `channels`, twice and four times as many. On CIFAR-10 ResNet-20 has 269,722 parameters, 0.27 million
    as in the paper. Convolutions start at N(0, 2/fan_in), as there; the readout starts as torch's does. The side must
    be 4 or more. A flat input of s² values is read as one channel, s × s.
    """
    owner = "architecture resnet"
    image_channels, side = square_image("resnet", data)
    require_at_least(owner, 1, blocks_per_stage=blocks_per_stage, channels=channels)
    require_at_most(owner, MOST_BLOCKS // STAGES, blocks_per_stage=blocks_per_stage)
    if side < SMALLEST_SIDE:
        raise InputError(
            f"{owner} got images of side {side}; expected {SMALLEST_SIDE} or more, because it is halved twice. Use "
            "resmlp for smaller ones."
        )
    stem = nn.Sequential(
        AsImage(image_channels, side), conv3x3(image_channels, channels), nn.BatchNorm2d(channels), nn.ReLU()
    )
    blocks, reads = [], channels
    for stage in range(STAGES):
        writes = channels << stage
        for number in range(blocks_per_stage):
            blocks.append(BasicBlock(reads, writes, stride=2 if stage and not number else 1))
            reads = writes
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(reads, data.classes))
    return channels_last(BlockModel(stem, blocks, head, data))
