"""GPT: a small causal transformer that predicts each next token; a target for every token of the sample.

    h_0 = token + position;  h_l = h_{l−1} + f_l(h_{l−1}), pre-norm attention and MLP;  logits = W LayerNorm(h_L) + b

A token sees itself and those before it, and no other (Radford et al., Language Models are Unsupervised Multitask
Learners, 2019, for the order of norms and layers). The readout has a weight of its own, not that of the embedding: so
stem, blocks and head share no parameter, and each follows its own credit.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.tokens import reads_tokens
from walkback.lab.zoo.architectures.vit_mini import TOKEN_STD, TransformerBlock
from walkback.lab.zoo.contract import MOST_BLOCKS, BlockModel, DataSpec
from walkback.lab.zoo.options import require_at_least, require_at_most


class TokenEmbedding(nn.Module):
    """Tokens to vectors, each with its position: int64 (B, T) → (B, T, d)."""

    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.tokens.weight, std=TOKEN_STD)
        self.position = nn.Parameter(TOKEN_STD * torch.randn(1, length, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """One vector per token."""
        return self.tokens(inputs) + self.position[:, : inputs.shape[1]]  # type: ignore[no-any-return]


@reads_tokens(DataSpec((64,), 84, vocabulary=84, target_shape=(64,)))
@normalised_by("pre-norm LayerNorm in each block; a terminal LayerNorm")
def gpt(
    data: DataSpec,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    expansion: int = 4,
) -> BlockModel:
    """A causal transformer of `depth` blocks with a terminal LayerNorm and a linear readout of every token.

    Embeddings start at N(0, 0.02²); the layers that write into the stream at N(0, 0.01²), as the zoo's other
    transformer's do; all else as torch's does. There is no dropout.
    """
    owner = "architecture gpt"
    require_at_least(owner, 1, width=width, depth=depth, heads=heads, expansion=expansion)
    require_at_most(owner, MOST_BLOCKS, depth=depth)
    if width % heads:
        raise InputError(f"{owner}: width {width} is not a multiple of heads {heads}; make it one.")
    if data.vocabulary is None or data.target_shape != data.input_shape:
        raise InputError(
            f"{owner} answers for every token; got inputs of shape {data.input_shape} and targets of shape "
            f"{data.target_shape}. Expected tokens (T,) with targets (T,), such as shakespeare's."
        )
    stem = TokenEmbedding(data.vocabulary, data.input_shape[0], width)
    blocks = [TransformerBlock(width, heads, expansion, causal=True) for _ in range(depth)]
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, data.classes))
    return BlockModel(stem, blocks, head, data)
