"""MLP: a plain perceptron of any widths, without skips and without norms; the classical set-up of feedback alignment.

    h_0 = x, flattened;  h_l = φ(W_l h_{l−1} + b_l);  logits = W h_L + b

A hidden layer is a block, so 784-500-10 has one block, and its sites are the input and the hidden layer. The stem has
nothing to learn: the credit of h_0 is measured and followed by no one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, get_args

from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.contract import MOST_BLOCKS, BlockModel, DataSpec, SkiplessBlock
from walkback.lab.zoo.options import require_at_least, require_at_most

Activation = Literal["tanh", "relu", "sigmoid"]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid}


class HiddenLayer(SkiplessBlock):
    """φ(W h + b) in place of h, (B, d) → (B, d')."""

    def __init__(self, features_in: int, features_out: int, activation: nn.Module) -> None:
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.activation = activation

    def branch(self, hidden: Tensor) -> Tensor:
        """f(h)."""
        return self.activation(self.linear(hidden))  # type: ignore[no-any-return]


@normalised_by("no norm")
def mlp(data: DataSpec, *, widths: Sequence[int] = (500, 500), activation: Activation = "relu") -> BlockModel:
    """One hidden layer of each of the `widths`, and a linear readout; `activation` is tanh, relu or sigmoid.

    Any input is flattened; weights and biases start as torch's do, uniform within ±1/√fan_in.
    """
    if not widths:
        raise InputError("architecture mlp: widths is empty; expected one number for each hidden layer, such as [500].")
    if activation not in get_args(Activation):
        raise InputError(f"architecture mlp: activation is {activation!r}; expected 'tanh', 'relu' or 'sigmoid'.")
    require_at_least("architecture mlp", 1, widths=min(widths))
    require_at_most("architecture mlp", MOST_BLOCKS, layers=len(widths))
    sizes = pairwise((data.features, *widths))
    blocks = [HiddenLayer(size, after, ACTIVATIONS[activation]()) for size, after in sizes]
    return BlockModel(nn.Flatten(), blocks, nn.Linear(widths[-1], data.classes), data)
