"""What a network of the zoo is made of: blocks with a skip, without one, and those whose last layer is a Linear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

from torch import Tensor, nn


class Block(nn.Module, ABC):
    """One step of the stream, h_l = join(h_{l−1}, f(h_{l−1})), by default the residual h + f(h)."""

    @abstractmethod
    def branch(self, hidden: Tensor) -> Tensor:
        """f(h): what the block computes, and what the penalty is on."""

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The next site from this one and the branch; a block without a skip returns the branch."""
        return hidden + branch

    def forward(self, hidden: Tensor) -> Tensor:
        """The next site."""
        return self.join(hidden, self.branch(hidden))


class SkiplessBlock(Block):
    """A block that replaces its input: h_l = f(h_{l−1}), so its branch is its output."""

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The branch alone."""
        return branch


class LinearBlock(Block):
    """A block whose last layer is a Linear: h + last(features(h)), or last(features(h)) for a `SkiplessBlock`.

    It computes what any block of these layers does; a method whose credit has a low rank makes its step cheaper by
    knowing the last layer. So that what it knows is true, neither `branch` nor `join` may be anything else: either
    `join` hands the gradient of what the block writes to its last layer as it is.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, known in (("branch", (LinearBlock.branch,)), ("join", (Block.join, SkiplessBlock.join))):
            if getattr(cls, name) not in known:
                raise TypeError(f"{cls.__name__} has a {name} of its own; make it a Block, not a LinearBlock.")

    @property
    @abstractmethod
    def last(self) -> nn.Linear:
        """The layer that writes into the stream."""

    @abstractmethod
    def features(self, hidden: Tensor) -> Tensor:
        """What the last layer reads."""

    @final
    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.last(self.features(hidden))  # type: ignore[no-any-return]
