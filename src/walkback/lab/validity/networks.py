"""Networks of the bench: the zoo's architectures at small sizes, and two that the zoo has not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from walkback.errors import UnknownName
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.zoo import build_model
from walkback.lab.zoo.architectures.vit_mini import TOKEN_STD, ClassTokenHead, TransformerBlock
from walkback.lab.zoo.contract import Block, BlockModel, DataSpec, SkiplessBlock
from walkback.lab.zoo.datasets.two_words import LETTERS
from walkback.registry import did_you_mean


class PlainBlock(SkiplessBlock):
    """φ(norm(Linear(h))), in place of h: a layer of a plain perceptron."""

    def __init__(self, width: int, norm: str) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = NORMS[norm](width)
        self.activation = nn.Tanh() if norm == "none" else nn.ReLU()

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h), (B, d) → (B, d)."""
        return self.activation(self.norm(self.linear(hidden)))  # type: ignore[no-any-return]


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
}


def plain_mlp(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """A perceptron without skips: Linear, `depth` layers of one width, linear readout."""
    stem = nn.Sequential(nn.Flatten(), nn.Linear(data.features, config.width))
    blocks: list[Block] = [PlainBlock(config.width, config.norm) for _ in range(config.depth)]
    return BlockModel(stem, blocks, nn.Linear(config.width, data.classes), data)


class LetterEmbedding(nn.Module):
    """Codes of letters to tokens: (B, T) → (B, 1 + T, d), the class token first."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.class_token = nn.Parameter(TOKEN_STD * torch.randn(1, 1, width))
        self.position = nn.Parameter(TOKEN_STD * torch.randn(1, 1 + length, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """One token per letter, and the class token, each with its position."""
        tokens = self.letters(inputs.long())
        return torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], dim=1) + self.position


def text_transformer(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """A pre-norm transformer over letters that is read from its class token."""
    blocks: list[Block] = [TransformerBlock(config.width, 4, 2) for _ in range(config.depth)]
    stem = LetterEmbedding(data.input_shape[0], config.width)
    return BlockModel(stem, blocks, ClassTokenHead(config.width, data.classes), data)


def resmlp(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """The zoo's, `pre` or `post` normed, or `bare`: without a terminal norm."""
    return build_model(
        "resmlp",
        data,
        width=config.width,
        depth=config.depth,
        norm_position="post" if config.norm == "post" else "pre",
        terminal_norm=config.norm != "bare",
    )


def student_net(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """The zoo's, with GELU or tanh."""
    activation = "phi" if config.norm == "tanh" else "gelu"
    return build_model("student_net", data, width=config.width, depth=config.depth, activation=activation)


def vit_mini(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """The zoo's, of 16 patches."""
    return build_model("vit_mini", data, width=config.width, depth=config.depth)


def small_cnn(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """The zoo's, with a quarter, a half and all of the width as channels; it has three blocks whatever the depth."""
    channels = (config.width // 4, config.width // 2, config.width)
    return build_model("small_cnn", data, channels=channels, fc_width=config.width)


def small_resnet(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """The zoo's, with a quarter of the width as channels."""
    return build_model("small_resnet", data, channels=config.width // 4, depth=config.depth)


@dataclass(frozen=True)
class Kind:
    """An architecture, and the range that the bench has of it."""

    build: Callable[[NetworkConfig, DataSpec], BlockModel]
    norms: tuple[str, ...]
    widths: tuple[int, ...] = (32, 48, 64, 96, 128)
    depths: tuple[int, ...] = (2, 3, 4, 6, 8)
    reads: tuple[str, ...] = ("image",)
    """The kinds of data that it can be trained on here."""
    skips: bool = True


FLAT = ("image", "vector")
ARCHITECTURES: dict[str, Kind] = {
    "resmlp": Kind(resmlp, ("pre", "post", "bare"), reads=FLAT),
    "student_net": Kind(student_net, ("pre", "tanh"), reads=FLAT),
    "plain_mlp": Kind(plain_mlp, ("batch", "layer"), depths=(2, 3, 4), reads=FLAT, skips=False),
    "small_cnn": Kind(small_cnn, ("batch",), widths=(32, 48, 64), depths=(3,), skips=False),
    "small_resnet": Kind(small_resnet, ("batch",), widths=(32, 48, 64), depths=(2, 3, 4)),
    "vit_mini": Kind(vit_mini, ("pre",), widths=(32, 48, 64), depths=(2, 3, 4)),
    "text_transformer": Kind(text_transformer, ("pre",), widths=(32, 48, 64), depths=(2, 3, 4), reads=("text",)),
}


def kind_of(architecture: str) -> Kind:
    """An architecture by its name."""
    if architecture not in ARCHITECTURES:
        raise UnknownName(
            f"the bench has no architecture called {architecture!r}. {did_you_mean(architecture, ARCHITECTURES)}"
        )
    return ARCHITECTURES[architecture]


def network_of(config: NetworkConfig, data: DataSpec) -> BlockModel:
    """The network at its random start; its weights come from torch's global generator."""
    return kind_of(config.architecture).build(config, data)
