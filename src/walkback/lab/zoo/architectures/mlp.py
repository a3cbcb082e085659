"""MLP: a plain perceptron of any widths, without skips; the classical set-up of feedback alignment.

    h_0 = x, flattened;  h_l = φ(W_l h_{l−1} + b_l);  logits = W h_L + b

A hidden layer is a block, so 784-500-10 has one block, and its sites are the input and the hidden layer. The stem has
nothing to learn: the credit of h_0 is measured and followed by no one. Norms, dropout, initial weights and outputs are
options, so that the networks of published figures can be built as their authors did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.answers import Output
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.contract import MOST_BLOCKS, BlockModel, DataSpec, SkiplessBlock
from walkback.lab.zoo.options import require_at_least, require_at_most

Activation = Literal["tanh", "relu", "sigmoid", "leaky_relu"]
Norm = Literal["none", "batch", "length"]
Bias = Literal["learnt", "fixed", "none"]
Init = Literal["torch", "he_uniform", "sizes"]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "leaky_relu": nn.LeakyReLU,
}
LENGTH_EPSILON = 1e-8


class UnitLength(nn.Module):
    """h / RMS(h): what is left of a state without its length, (B, d) → (B, d)."""

    def forward(self, hidden: Tensor) -> Tensor:
        """The state with a mean square of 1."""
        return hidden / (hidden.square().mean(dim=1, keepdim=True).sqrt() + LENGTH_EPSILON)


class LeftOut(nn.Dropout):
    """Dropout whose node in a graph says what it is: nn.Dropout's on the CPU is a product like any other."""

    def forward(self, hidden: Tensor) -> Tensor:
        """The state with a share of its units at zero and the others larger; as it is in eval mode."""
        return torch.native_dropout(hidden, self.p, True)[0] if self.training else hidden


class HiddenLayer(SkiplessBlock):
    """φ(W h + b) in place of h, (B, d) → (B, d'), with whatever stands before W, before φ and behind it."""

    def __init__(self, linear: nn.Linear, activation: nn.Module, norm: Norm = "none", dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = linear
        self.activation = activation
        self.before: nn.Module | None = UnitLength() if norm == "length" else None
        self.between: nn.Module | None = nn.BatchNorm1d(linear.out_features) if norm == "batch" else None
        self.behind: nn.Module | None = LeftOut(dropout) if dropout else None

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        hidden = self.linear(hidden if self.before is None else self.before(hidden))
        hidden = self.activation(hidden if self.between is None else self.between(hidden))
        return hidden if self.behind is None else self.behind(hidden)


@normalised_by(
    "no norm",
    batch="BatchNorm before each activation; no terminal norm",
    length="each layer reads its input over its RMS; no terminal norm",
)
def mlp(
    data: DataSpec,
    *,
    widths: Sequence[int] = (500, 500),
    activation: Activation = "relu",
    norm: Norm = "none",
    bias: Bias = "learnt",
    init: Init = "torch",
    dropout: float = 0.0,
    output: Output = "softmax",
) -> BlockModel:
    """One hidden layer of each of the `widths`, and a linear readout; any input is flattened.

    `activation` is tanh, relu, sigmoid or leaky_relu (slope 0.01). `norm`: none; batch, a BatchNorm before the
    activation; length, each layer reads its input over its RMS. `bias`: learnt, none, or fixed where it was drawn.
    `init`: torch, weights and biases uniform within ±1/√fan_in; he_uniform, weights within ±√(6/fan_in), biases 0;
    sizes, both N(0, 1/(fan_in + fan_out)). `dropout` is the share of each hidden layer that is left out in training.
    `output`: softmax with cross-entropy, or sigmoid with a binary cross-entropy for each class.
    """
    if not widths:
        raise InputError("architecture mlp: widths is empty; expected one number for each hidden layer, such as [500].")
    for name, value, kind in (
        ("activation", activation, Activation), ("norm", norm, Norm), ("bias", bias, Bias), ("init", init, Init),
        ("output", output, Output),
    ):  # fmt: skip
        _require_one_of(name, value, kind)
    require_at_least("architecture mlp", 1, widths=min(widths))
    require_at_most("architecture mlp", MOST_BLOCKS, layers=len(widths))
    require_at_least("architecture mlp", 0, dropout=dropout)
    require_at_most("architecture mlp", 0.99, dropout=dropout)
    blocks = [
        HiddenLayer(layer(size, after, bias, init), ACTIVATIONS[activation](), norm, dropout)
        for size, after in pairwise((data.features, *widths))
    ]
    return BlockModel(nn.Flatten(), blocks, layer(widths[-1], data.classes, bias, init), data, output)


def layer(features_in: int, features_out: int, bias: Bias = "learnt", init: Init = "torch") -> nn.Linear:
    """A Linear with its weights drawn as `init` says, and its biases as `bias` does."""
    made = nn.Linear(features_in, features_out, bias=bias != "none")
    with torch.no_grad():
        if init == "he_uniform":
            reach = (6 / features_in) ** 0.5
            made.weight.uniform_(-reach, reach)
            if made.bias is not None:
                made.bias.zero_()
        elif init == "sizes":
            for parameter in made.parameters():
                parameter.normal_(0, (features_in + features_out) ** -0.5)
    if bias == "fixed":
        made.bias.requires_grad_(False)
    return made


def _require_one_of(option: str, value: str, kind: Any) -> None:
    known = get_args(kind)
    if value not in known:
        choices = ", ".join(repr(choice) for choice in known)
        raise InputError(f"architecture mlp: {option} is {value!r}; expected one of {choices}.")
