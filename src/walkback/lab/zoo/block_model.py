"""A network of the zoo: a stem, blocks in a row, and a head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import torch
from torch import Tensor, nn

from walkback.lab.zoo.answers import Output
from walkback.lab.zoo.blocks import Block
from walkback.lab.zoo.data_spec import DataSpec
from walkback.lab.zoo.modes import evaluating

MOST_BLOCKS = 10_000
"""Blocks are made one by one: a number beyond all networks would fill the memory before anything could be said."""


class BlockList(nn.ModuleList):
    """The blocks in order; a plain ModuleList that says what it holds."""

    def __iter__(self) -> Iterator[Block]:
        return super().__iter__()  # type: ignore[return-value]


class BlockModel(nn.Module):
    """A network whose forward pass is head(block_L(… block_1(stem(x)))).

    Args:
        stem: makes h_0 out of the input.
        blocks: in their order; block l makes h_l out of h_{l−1}.
        head: makes the logits out of h_L. It holds the last norm, if there is one, the choice of what is read, and the
            linear readout.
        data: what the network is built for.
        output: what the logits mean, and so which loss the network is trained and measured with: `softmax` for
            cross-entropy, `sigmoid` for a binary cross-entropy per class.

    Examples:
        >>> import torch
        >>> from walkback.lab import Block, BlockModel, DataSpec
        >>> class Tanh(Block):
        ...     def branch(self, hidden):
        ...         return hidden.tanh()
        >>> linear = torch.nn.Linear
        >>> model = BlockModel(linear(8, 16), [Tanh(), Tanh()], linear(16, 3), DataSpec((8,), classes=3))
        >>> model(torch.randn(4, 8)).shape
        torch.Size([4, 3])
    """

    def __init__(
        self, stem: nn.Module, blocks: Iterable[Block], head: nn.Module, data: DataSpec, output: Output = "softmax"
    ) -> None:
        super().__init__()
        self.output: Output = output
        self.stem = stem
        self.blocks = BlockList(blocks)
        self.head = head
        self.data = data

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits.

        Args:
            inputs: (B, …), each of the shape of `data.input_shape`.

        Returns:
            (B, classes), or (B, T, classes) where every token has an answer.
        """
        hidden = self.stem(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)  # type: ignore[no-any-return]

    @cached_property
    def site_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of one sample at each site h_0 … h_L, seen on an input of zeros."""
        parameter = next(self.parameters())
        with evaluating(self), torch.no_grad():
            hidden = self.stem(self.data.zeros(parameter))
            shapes = [tuple(hidden.shape[1:])]
            for block in self.blocks:
                hidden = block(hidden)
                shapes.append(tuple(hidden.shape[1:]))
        return tuple(shapes)
