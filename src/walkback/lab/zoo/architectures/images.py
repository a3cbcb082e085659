"""Inputs as square images, for the architectures that need them."""

from __future__ import annotations

from math import isqrt

from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.contract import DataSpec


def square_image(owner: str, data: DataSpec) -> tuple[int, int]:
    """Channels and side of the input as a square image; a flat input of s² values is one channel, s × s."""
    shape = data.input_shape
    if len(shape) == 3 and shape[1] == shape[2]:
        return shape[0], shape[1]
    if len(shape) == 1 and isqrt(shape[0]) ** 2 == shape[0]:
        return 1, isqrt(shape[0])
    raise InputError(
        f"architecture {owner} got inputs of shape {shape}; expected (C, H, W) with H = W, or a flat input "
        "whose length is a square. Use resmlp or student_net, which take any shape."
    )


class AsImage(nn.Module):
    """(B, …) → (B, C, S, S); an input that is an image already stays as it is."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.channels = channels
        self.side = side

    def forward(self, inputs: Tensor) -> Tensor:
        """The same values as an image."""
        return inputs.reshape(-1, self.channels, self.side, self.side)
