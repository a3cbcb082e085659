"""ResMLP: a residual multi-layer perceptron on the flattened input."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from walkback.errors import InputError
from walkback.zoo.architectures.normed_linear import normed_linear
from walkback.zoo.contract import MOST_BLOCKS, Block, BlockModel, DataSpec, LinearBlock
from walkback.zoo.options import require_at_least, require_at_most

WRITE_STD = 0.01
"""Standard deviation of the layers that write into the residual stream, so that it starts out flat."""


def linear_into_stream(features_in: int, features_out: int) -> nn.Linear:
    """A Linear with weight ~ N(0, 0.01²) and bias 0."""
    linear = nn.Linear(features_in, features_out)
    nn.init.normal_(linear.weight, std=WRITE_STD)
    nn.init.zeros_(linear.bias)
    return linear


class FeedForwardBlock(Block):
    """The layers of a block; where the norm stands is up to the subclass."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, expansion * width)
        self.activation = nn.GELU()
        self.linear2 = linear_into_stream(expansion * width, width)


class PreNormBlock(FeedForwardBlock, LinearBlock):
    """h + f(h) with f(h) = Linear2(GELU(Linear1(LayerNorm(h))))."""

    @property
    def last(self) -> nn.Linear:
        """Linear2."""
        return self.linear2

    def features(self, hidden: Tensor) -> Tensor:
        """GELU(Linear1(LayerNorm(h)))."""
        return self.activation(normed_linear(self.norm, self.linear1, hidden))  # type: ignore[no-any-return]


class PostNormBlock(FeedForwardBlock):
    """LayerNorm(h + f(h)) with f(h) = Linear2(GELU(Linear1(h)))."""

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h), (B, d) → (B, d)."""
        return self.linear2(self.activation(self.linear1(hidden)))  # type: ignore[no-any-return]

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The normalised sum."""
        return self.norm(hidden + branch)  # type: ignore[no-any-return]


BLOCKS: dict[str, type[FeedForwardBlock]] = {"pre": PreNormBlock, "post": PostNormBlock}


def resmlp(
    data: DataSpec,
    *,
    width: int = 256,
    depth: int = 4,
    expansion: int = 1,
    terminal_norm: bool = True,
    norm_position: Literal["pre", "post"] = "pre",
) -> BlockModel:
    """A residual MLP: h_0 = Linear(x), `depth` blocks, LayerNorm (if `terminal_norm`), linear readout.

    Any input is flattened. Weights are torch's defaults from its global generator, but each block's last
    layer starts at N(0, 0.01²) with bias 0.
    """
    require_at_least("architecture resmlp", 1, width=width, depth=depth, expansion=expansion)
    require_at_most("architecture resmlp", MOST_BLOCKS, depth=depth)
    if norm_position not in BLOCKS:
        raise InputError(f"architecture resmlp: norm_position is {norm_position!r}; expected 'pre' or 'post'.")
    stem = nn.Sequential(nn.Flatten(), nn.Linear(data.features, width))
    blocks = [BLOCKS[norm_position](width, expansion) for _ in range(depth)]
    readout = nn.Linear(width, data.classes)
    head = nn.Sequential(nn.LayerNorm(width), readout) if terminal_norm else readout
    return BlockModel(stem, blocks, head, data)
