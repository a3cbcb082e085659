"""SmallResNet: a convolutional residual network with BatchNorm, no LayerNorm and no terminal norm."""

from __future__ import annotations

from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.images import AsImage, square_image
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.small_cnn import channels_last, conv_stage
from walkback.lab.zoo.contract import MOST_BLOCKS, Block, BlockModel, DataSpec
from walkback.lab.zoo.options import require_at_least, require_at_most

SMALLEST_SIDE = 2


class ConvBlock(Block):
    """h + f(h) with f(h) = BatchNorm(conv(ReLU(BatchNorm(conv(h))))), (B, C, S, S) → (B, C, S, S)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # A bias in front of a BatchNorm would be subtracted again.
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.activation = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.norm2(self.conv2(self.activation(self.norm1(self.conv1(hidden)))))  # type: ignore[no-any-return]


@normalised_by("BatchNorm after each convolution; no terminal norm")
def small_resnet(data: DataSpec, *, channels: int = 32, depth: int = 4) -> BlockModel:
    """A stem, `depth` residual blocks of one shape, the average over all pixels, and a linear readout.

    The stem is conv 3×3, BatchNorm, ReLU and max-pool, so that every site is (C, ⌊S/2⌋, ⌊S/2⌋); weights start as
    torch's do. Of the source study's network (arXiv 2606.21126) it is known that it is residual, has BatchNorm and no
    LayerNorm, and so no terminal one; the rest is chosen here. All skips are the identity, no ReLU stands behind the
    sum, and only the stem makes the image smaller: so the stream is h_0 plus what the blocks add. A flat input of s²
    values is read as one channel, s × s.
    """
    image_channels, side = square_image("small_resnet", data)
    require_at_least("architecture small_resnet", 1, channels=channels, depth=depth)
    require_at_most("architecture small_resnet", MOST_BLOCKS, depth=depth)
    if side < SMALLEST_SIDE:
        raise InputError(
            f"architecture small_resnet got images of side {side}; expected {SMALLEST_SIDE} or more, because the "
            "stem halves it. Use resmlp for smaller ones."
        )
    stem = nn.Sequential(AsImage(image_channels, side), conv_stage(image_channels, channels))
    blocks = [ConvBlock(channels) for _ in range(depth)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, data.classes))
    return channels_last(BlockModel(stem, blocks, head, data))
