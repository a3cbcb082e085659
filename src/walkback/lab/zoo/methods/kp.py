"""Kolen–Pollack: forward and backward weights follow the same changes and the same decay, until they agree."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from walkback.lab.zoo.contract import MethodOptions, StepResult
from walkback.lab.zoo.methods.feedback_chain import DrawnFeedback, FeedbackChain, drawn_like, held_as
from walkback.lab.zoo.precision import scales_gradients


class KP(FeedbackChain):
    """W ← λW − ηΔ and B ← λB − ηΔ, with B in the shape of W, so that W − B shrinks by λ at every step.

    B starts at N(0, 1/(3·fan_in)), apart from W, and is a parameter of the run: the optimizer moves it by the very Δ
    that it moves W by, and λ is the run's weight decay, 1 − lr·weight_decay with `adamw`. Equal changes have equal
    moments there, so the rule is exact under `adamw`, and under `sgd`, where W − B goes through momentum; `adam` mixes
    the decay into its moments, and W − B need not shrink. Without a weight decay W − B stays as it is, and B turns
    towards W only as both grow by the same changes, as in the runs that Akrout et al. published with their code. Δ has
    the gradient of the penalty in it. The B of a weight that is frozen stays as it was drawn.
    """

    options_type: ClassVar[type[MethodOptions]] = DrawnFeedback
    options: DrawnFeedback
    paper: ClassVar[str] = (
        "Kolen and Pollack, Backpropagation without weight transport, ICNN 1994; as in Akrout, Wilson, Humphreys, "
        "Lillicrap and Tweed, Deep learning without weight transport, NeurIPS 32, 2019"
    )
    gamma: ClassVar[str] = "How far the error that came back through the learnt B points along the gradient."
    no_null: ClassVar[str] = (
        "its feedback is learnt: a fresh draw is the feedback before training, which is no null for what was learnt"
    )

    def draw(self, generator: torch.Generator | None) -> None:
        """One parameter for each weight, of its shape, named after its module."""
        for name, layer in self.layers():
            learnt = nn.Parameter(
                drawn_like(layer, generator, self.options.feedback_variance), requires_grad=layer.weight.requires_grad
            )
            self.register_parameter(held_as(name), learnt)

    def feedback(self, name: str) -> Tensor:
        """The matrix B in place of the weight of the module of that name, (out, in, …)."""
        return self.get_parameter(held_as(name))

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """The step of the error chain; then each B is told to move as its weight."""
        result = super().accumulate(inputs, targets)
        for name, layer in self.layers():
            if layer.weight.grad is not None:
                # A copy: who clips gradients in place would clip a shared one twice.
                self.feedback(name).grad = layer.weight.grad.clone()
        return result
