"""Feedback alignment: the error travels back layer by layer through fixed random matrices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.methods.error_chain import ErrorChain
from walkback.lab.zoo.methods.feedback_ops import FeedbackInPlace


class FA(ErrorChain):
    """Backpropagation in which every Linear and Conv2d sends its error back through B in place of Wᵀ.

    B ~ N(0, 1/(3·fan_in)), the variance of torch's own initial weights, fixed; the head has one too. Norms,
    activations, attention's softmax and the skips keep their true Jacobians. The model stays an ordinary
    module whose own gradient is the true one.
    """

    def draw(self, generator: torch.Generator | None) -> None:
        """One buffer for each weight, of its shape, named after its module."""
        for name, layer in self._layers():
            if isinstance(layer, nn.Conv2d) and isinstance(layer.padding, str):
                raise InputError(f"method fa: {name} has padding {layer.padding!r}; expected pixels, a number.")
            fan_in = layer.weight[0].numel()
            feedback = torch.randn(layer.weight.shape, generator=generator) / (3 * fan_in) ** 0.5
            self.register_buffer(_buffer_name(name), feedback)

    def redraw(self, generator: torch.Generator) -> FA:
        """The same rule with other matrices."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def feedback(self, name: str) -> Tensor:
        """The matrix B in place of the weight of the module of that name, (out, in, …)."""
        return self.get_buffer(_buffer_name(name))

    def backward_rule(self) -> AbstractContextManager[object]:
        """B in place of Wᵀ in every layer."""
        return FeedbackInPlace((layer.weight, self.feedback(name)) for name, layer in self._layers())

    def _layers(self) -> Iterator[tuple[str, nn.Linear | nn.Conv2d]]:
        for name, module in self.model.named_modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                yield name, module


def _buffer_name(module_name: str) -> str:
    # A buffer's name may not hold a dot.
    return module_name.replace(".", "/")
