"""ResMLP: a residual multi-layer perceptron on the flattened input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.normed_linear import normed_linear
from walkback.lab.zoo.contract import MOST_BLOCKS, Block, BlockModel, DataSpec, LinearBlock, SkiplessBlock
from walkback.lab.zoo.options import require_at_least, require_at_most, require_positive

WRITE_STD = 0.01
"""Standard deviation of the layers that write into the residual stream, so that it starts out flat."""


def linear_into_stream(features_in: int, features_out: int, std: float = WRITE_STD) -> nn.Linear:
    """A Linear with weight ~ N(0, std²), 0.01² unless told, and bias 0."""
    linear = nn.Linear(features_in, features_out)
    nn.init.normal_(linear.weight, std=std)
    nn.init.zeros_(linear.bias)
    return linear


class FeedForwardBlock(Block):
    """The layers of a block, φ between them; where the norm stands is up to the subclass."""

    def __init__(
        self,
        width: int,
        expansion: int,
        write_std: float = WRITE_STD,
        activation: Callable[[], nn.Module] = nn.GELU,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, expansion * width)
        self.activation = activation()
        self.linear2 = linear_into_stream(expansion * width, width, write_std)


class PreNormBlock(FeedForwardBlock, LinearBlock):
    """h + f(h) with f(h) = Linear2(φ(Linear1(LayerNorm(h)))), φ = GELU unless told."""

    @property
    def last(self) -> nn.Linear:
        """Linear2."""
        return self.linear2

    def features(self, hidden: Tensor) -> Tensor:
        """φ(Linear1(LayerNorm(h)))."""
        return self.activation(normed_linear(self.norm, self.linear1, hidden))  # type: ignore[no-any-return]


class SkiplessPreNormBlock(SkiplessBlock, PreNormBlock):
    """f(h) alone, of the same layers."""


class PostNormBlock(FeedForwardBlock):
    """LayerNorm(h + f(h)) with f(h) = Linear2(φ(Linear1(h)))."""

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h), (B, d) → (B, d)."""
        return self.linear2(self.activation(self.linear1(hidden)))  # type: ignore[no-any-return]

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The normalised sum."""
        return self.norm(hidden + branch)  # type: ignore[no-any-return]


BLOCKS: dict[tuple[str, bool], type[FeedForwardBlock]] = {
    ("pre", True): PreNormBlock,
    ("pre", False): SkiplessPreNormBlock,
    ("post", True): PostNormBlock,
}
"""By `norm_position` and `residual_add`."""


@normalised_by("LayerNorm")
def resmlp(
    data: DataSpec,
    *,
    width: int = 256,
    depth: int = 4,
    expansion: int = 1,
    terminal_norm: bool = True,
    norm_position: Literal["pre", "post"] = "pre",
    residual_add: bool = True,
    w2_std: float = WRITE_STD,
) -> BlockModel:
    """A residual MLP: h_0 = Linear(x), `depth` blocks, LayerNorm (if `terminal_norm`), linear readout.

    Any input is flattened. Weights are torch's defaults from its global generator, but each block's last
    layer starts at N(0, w2_std²) with bias 0. Without `residual_add` a block replaces its input, h_l = f(h_{l−1});
    the networks without skips of the source study (arXiv 2606.21126) have a `w2_std` of 0.5.
    """
    if norm_position not in ("pre", "post"):
        raise InputError(f"architecture resmlp: norm_position is {norm_position!r}; expected 'pre' or 'post'.")
    if (norm_position, residual_add) not in BLOCKS:
        raise InputError(
            "architecture resmlp: norm_position 'post' normalises the sum of a block's input and its branch, and "
            "without residual_add there is no sum. Use norm_position 'pre', or leave residual_add true."
        )
    require_positive("architecture resmlp", w2_std=w2_std)
    block = partial(BLOCKS[norm_position, residual_add], write_std=w2_std)
    return stacked("resmlp", data, block, width=width, depth=depth, expansion=expansion, terminal_norm=terminal_norm)


def stacked(
    owner: str,
    data: DataSpec,
    block: Callable[[int, int], Block],
    *,
    width: int,
    depth: int,
    expansion: int,
    terminal_norm: bool,
) -> BlockModel:
    """Stem, `depth` blocks and head, their weights drawn in that order; `block` takes the width and the expansion."""
    require_at_least(f"architecture {owner}", 1, width=width, depth=depth, expansion=expansion)
    require_at_most(f"architecture {owner}", MOST_BLOCKS, depth=depth)
    stem = nn.Sequential(nn.Flatten(), nn.Linear(data.features, width))
    blocks = [block(width, expansion) for _ in range(depth)]
    readout = nn.Linear(width, data.classes)
    head = nn.Sequential(nn.LayerNorm(width), readout) if terminal_norm else readout
    return BlockModel(stem, blocks, head, data)
