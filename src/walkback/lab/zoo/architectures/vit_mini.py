"""ViT-Mini: a small vision transformer that is read from its class token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.images import AsImage, square_image
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.resmlp import linear_into_stream
from walkback.lab.zoo.contract import MOST_BLOCKS, Block, BlockModel, DataSpec
from walkback.lab.zoo.options import require_at_least, require_at_most

PATCHES_PER_SIDE = 4
TOKEN_STD = 0.02


class PatchEmbedding(nn.Module):
    """Images to tokens: (B, C, S, S) → (B, 1 + (S/p)², d), the class token first."""

    def __init__(self, channels: int, side: int, patch: int, width: int) -> None:
        super().__init__()
        self.image = AsImage(channels, side)
        self.patch = patch
        self.project = nn.Linear(channels * patch**2, width)
        self.class_token = nn.Parameter(TOKEN_STD * torch.randn(1, 1, width))
        self.position = nn.Parameter(TOKEN_STD * torch.randn(1, 1 + (side // patch) ** 2, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """One token per patch, and the class token, each with its position."""
        patches = F.unfold(self.image(inputs), self.patch, stride=self.patch).transpose(1, 2)
        class_token = self.class_token.expand(len(patches), -1, -1)
        return torch.cat([class_token, self.project(patches)], dim=1) + self.position


class SelfAttention(nn.Module):
    """Multi-head attention of plain Linear layers, (B, T, d) → (B, T, d); causal: no token sees a later one."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = linear_into_stream(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """softmax(QKᵀ/√(d/heads)) V of each head, projected."""
        batch, count, width = tokens.shape
        heads = self.qkv(tokens).view(batch, count, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.proj(mixed.transpose(1, 2).reshape(batch, count, width))  # type: ignore[no-any-return]


class TransformerBlock(Block):
    """h + f(h) with f(h) = a + MLP(LayerNorm(h + a)), a = Attention(LayerNorm(h))."""

    def __init__(self, width: int, heads: int, expansion: int, *, causal: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, causal=causal)
        self.norm2 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, expansion * width)
        self.activation = nn.GELU()
        self.linear2 = linear_into_stream(expansion * width, width)

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h): both residual updates together, (B, T, d) → (B, T, d)."""
        attended: Tensor = self.attention(self.norm1(hidden))
        mixed: Tensor = self.linear2(self.activation(self.linear1(self.norm2(hidden + attended))))
        return attended + mixed


class ClassTokenHead(nn.Module):
    """LayerNorm and linear readout of token 0, (B, T, d) → (B, classes)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits."""
        return self.linear(self.norm(tokens[:, 0]))  # type: ignore[no-any-return]


@normalised_by("pre-norm LayerNorm in each block; a terminal LayerNorm")
def vit_mini(
    data: DataSpec,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    expansion: int = 2,
    patch: int | None = None,
) -> BlockModel:
    """A pre-norm vision transformer with a class token and a terminal LayerNorm.

    `patch` None means a quarter of the side, which gives 16 patches at any size (8 × 8 pixels on a side of
    32, 7 × 7 on 28, 2 × 2 on 8); a flat input of s² values is read as one s × s channel.
    """
    channels, side = square_image("vit_mini", data)
    require_at_least("architecture vit_mini", 1, width=width, depth=depth, heads=heads, expansion=expansion)
    require_at_most("architecture vit_mini", MOST_BLOCKS, depth=depth)
    if width % heads:
        raise InputError(f"architecture vit_mini: width {width} is not a multiple of heads {heads}; make it one.")
    if patch is not None and (not isinstance(patch, int) or isinstance(patch, bool)):
        raise InputError(f"architecture vit_mini: patch is {patch!r}; expected a whole number.")
    size = side // PATCHES_PER_SIDE if patch is None else patch
    if size < 1 or side % size:
        raise InputError(
            f"architecture vit_mini: patches of side {size} do not tile images of side {side}; "
            f"pass a `patch` that divides {side}."
        )
    blocks = [TransformerBlock(width, heads, expansion) for _ in range(depth)]
    stem = PatchEmbedding(channels, side, size, width)
    return BlockModel(stem, blocks, ClassTokenHead(width, data.classes), data)
