"""What a network of the zoo is made of: blocks with a skip, without one, and those whose last layer is a Linear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

from torch import Tensor, nn


class Block(nn.Module, ABC):
    """One step of the stream: by default h_l = h_{l−1} + f(h_{l−1}).

    Formula:
        h_l = join(h_{l−1}, f(h_{l−1})), with f the `branch`.

    Examples:
        >>> import torch
        >>> from walkback.lab import Block
        >>> class Double(Block):
        ...     def branch(self, hidden):
        ...         return hidden
        >>> Double()(torch.ones(1, 2)).tolist()
        [[2.0, 2.0]]
    """

    @abstractmethod
    def branch(self, hidden: Tensor) -> Tensor:
        """f(h): what the block computes, and what the penalty is on.

        Args:
            hidden: h_{l−1}, (B, …).

        Returns:
            A tensor that `join` takes.
        """

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The next site from this one and the branch; here their sum.

        Args:
            hidden: h_{l−1}, (B, …).
            branch: f(h_{l−1}).

        Returns:
            h_l, (B, …).
        """
        return hidden + branch

    def forward(self, hidden: Tensor) -> Tensor:
        """The next site.

        Args:
            hidden: h_{l−1}, (B, …).

        Returns:
            h_l, (B, …).
        """
        return self.join(hidden, self.branch(hidden))


class SkiplessBlock(Block):
    """A block that replaces its input: h_l = f(h_{l−1}), so its branch is its output.

    Examples:
        >>> import torch
        >>> from walkback.lab import SkiplessBlock
        >>> class Half(SkiplessBlock):
        ...     def branch(self, hidden):
        ...         return hidden / 2
        >>> Half()(torch.ones(1, 2)).tolist()
        [[0.5, 0.5]]
    """

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The branch alone."""
        return branch


class LinearBlock(Block):
    """A block whose last layer is a Linear: h + last(features(h)), or last(features(h)) for a `SkiplessBlock`.

    It computes what any block of these layers does. A method whose credit has a low rank makes its step cheaper by
    knowing the last layer. So that this is right, a subclass may override neither `branch` nor `join`: Python raises
    TypeError.

    Examples:
        >>> import torch
        >>> from walkback.lab import LinearBlock
        >>> class MLPBlock(LinearBlock):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.layer = torch.nn.Linear(width, width)
        ...     @property
        ...     def last(self):
        ...         return self.layer
        ...     def features(self, hidden):
        ...         return hidden.tanh()
        >>> MLPBlock(8)(torch.randn(4, 8)).shape
        torch.Size([4, 8])
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
        """What the last layer reads.

        Args:
            hidden: h_{l−1}, (B, …).

        Returns:
            (B, …, in_features of `last`).
        """

    @final
    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.last(self.features(hidden))  # type: ignore[no-any-return]
