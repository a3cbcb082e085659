"""What a network of the zoo is built for: the shape of one input, and how many classes there are."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class DataSpec:
    """What a network is built for: the shape of one input, and the number of classes.

    Examples:
        >>> from walkback.lab import DataSpec
        >>> DataSpec((3, 32, 32), classes=10).features
        3072
    """

    input_shape: tuple[int, ...]
    """The shape of one input: (C, H, W), (D,) or, of tokens, (T,)."""
    classes: int
    """How many classes an answer is chosen from."""
    vocabulary: int | None = None
    """How many different tokens there are, where inputs are tokens, int64 (T,). None where inputs are numbers."""
    target_shape: tuple[int, ...] = ()
    """The shape of one sample's targets: () for one class, (T,) for a class for each token."""

    @property
    def features(self) -> int:
        """The number of values in one input."""
        return prod(self.input_shape)

    @property
    def answers(self) -> int:
        """How many answers a sample has: 1, or one for each token."""
        return prod(self.target_shape)

    def zeros(self, like: Tensor) -> Tensor:
        """One input of zeros, for looking at shapes.

        Args:
            like: a parameter; its device is taken and, where inputs are numbers, its dtype.

        Returns:
            A tensor of shape (1, *input_shape).
        """
        shape = (1, *self.input_shape)
        return like.new_zeros(shape) if self.vocabulary is None else like.new_zeros(shape, dtype=torch.int64)


EXAMPLE_DATA = DataSpec((3, 32, 32), 10)
"""What an architecture is built for where no data is named, to see what is defined on it. An architecture of other
data has an example of its own, as the attribute `example_data` of its function."""
