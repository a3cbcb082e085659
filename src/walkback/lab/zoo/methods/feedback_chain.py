"""What methods share that carry the error back as backpropagation does, through other matrices than the weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.error_chain import ErrorChain
from walkback.lab.zoo.methods.feedback_ops import FeedbackInPlace

Layer = nn.Linear | nn.Conv2d
FeedbackVariance = Literal["fan_in", "sizes"]


@dataclass(frozen=True)
class DrawnFeedback(MethodOptions):
    """How large B is drawn."""

    feedback_variance: FeedbackVariance = "fan_in"
    """`fan_in`: B ~ N(0, 1/(3·fan_in)), the variance of torch's own initial weights. `sizes`: N(0, 1/(fan_in +
    fan_out)), as in the code of Akrout et al."""


class FeedbackChain(ErrorChain):
    """Backpropagation in which every Linear and Conv2d sends its error back through B in place of Wᵀ.

    B has the shape of W, (out, in, …); the head has one too. Norms, activations, attention's softmax and the skips
    keep their true Jacobians. The model stays an ordinary module whose own gradient is the true one.
    """

    @abstractmethod
    def feedback(self, name: str) -> Tensor:
        """The matrix B in place of the weight of the module of that name, (out, in, …)."""

    def backward_rule(self) -> AbstractContextManager[object]:
        """B in place of Wᵀ in every layer."""
        # Without their gradient: feedback that learns does not do so by autograd.
        return FeedbackInPlace((layer.weight, self.feedback(name).detach()) for name, layer in self.layers())

    def layer(self, name: str) -> Layer:
        """The layer of that name."""
        module = self.model.get_submodule(name)
        assert isinstance(module, Layer)
        return module

    def layers(self) -> Iterator[tuple[str, Layer]]:
        """Every layer that has a matrix, by its name in the model."""
        for name, module in self.model.named_modules():
            if isinstance(module, Layer):
                if isinstance(module, nn.Conv2d) and isinstance(module.padding, str):
                    raise InputError(
                        f"{self._name()}: {name} has padding {module.padding!r}; expected pixels, a number."
                    )
                yield name, module


def held_as(module_name: str) -> str:
    """The name of what a method holds for a module: it may not have a dot."""
    return module_name.replace(".", "/")


def initial_scale(layer: Layer) -> float:
    """The standard deviation of torch's own initial weights, 1/√(3·fan_in)."""
    return float((3 * layer.weight[0].numel()) ** -0.5)


def drawn_like(layer: Layer, generator: torch.Generator | None, variance: FeedbackVariance = "fan_in") -> Tensor:
    """A matrix of the weight's shape from a normal law of that variance."""
    weight = layer.weight
    fan_in, fan_out = weight[0].numel(), weight[:, 0].numel()
    divisor = 3 * fan_in if variance == "fan_in" else fan_in + fan_out
    # Divided, not multiplied by the scale, whose rounding would differ from that of the runs on record.
    return torch.randn(weight.shape, generator=generator) / float(divisor**0.5)
