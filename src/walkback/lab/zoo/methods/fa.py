"""Feedback alignment: the error travels back layer by layer through fixed random matrices."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.feedback_chain import DrawnFeedback, FeedbackChain, drawn_like, held_as


class FA(FeedbackChain):
    """Backpropagation in which every Linear and Conv2d sends its error back through B in place of Wᵀ.

    B ~ N(0, 1/(3·fan_in)), the variance of torch's own initial weights, fixed; the head has one too. Norms,
    activations, attention's softmax and the skips keep their true Jacobians. The model stays an ordinary
    module whose own gradient is the true one.
    """

    options_type: ClassVar[type[MethodOptions]] = DrawnFeedback
    options: DrawnFeedback
    paper: ClassVar[str] = (
        "Lillicrap, Cownden, Tweed and Akerman, Random synaptic feedback weights support error backpropagation for "
        "deep learning, Nature Communications 7:13276, 2016"
    )
    gamma: ClassVar[str] = (
        "How far the error that came back through B points along the gradient; the null draws every B."
    )

    def draw(self, generator: torch.Generator | None) -> None:
        """One buffer for each weight, of its shape, named after its module."""
        for name, layer in self.layers():
            self.register_buffer(held_as(name), drawn_like(layer, generator, self.options.feedback_variance))

    def redraw(self, generator: torch.Generator) -> FA:
        """The same rule with other matrices."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def feedback(self, name: str) -> Tensor:
        """The matrix B in place of the weight of the module of that name, (out, in, …)."""
        return self.get_buffer(held_as(name))
