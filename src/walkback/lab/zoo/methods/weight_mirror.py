"""Weight mirror: noise goes through each layer, and the correlation of what goes in and out teaches its feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.feedback_chain import DrawnFeedback, FeedbackChain, Layer, drawn_like, held_as
from walkback.lab.zoo.options import require_at_least, require_positive


@dataclass(frozen=True)
class WeightMirrorOptions(DrawnFeedback):
    """The noise, how fast B follows, and what keeps it from growing."""

    mirror_rate: float = 0.1
    """η of each mirroring; 0.01 in the authors' code."""
    noise: float = 0.1
    """a: each entry of the noise is uniform in ±a/2, so that its variance is a²/12 (the authors' 0.1)."""
    mirror_samples: int = 128
    """n: how many samples of noise each layer sees after each training step (the authors': the batch size)."""
    first_mirrors: int = 0
    """How many mirrorings come before the first step (the authors' code: 468, an epoch of MNIST)."""
    growth: Literal["decay", "response", "free"] = "decay"
    """What B does beside following. `decay`: it forgets at the rate η n a²/12, so that it tends to W itself.
    `response`: it is scaled so that a noise of U(0, 1) at its outputs, carried back, has a standard deviation of 0.5
    over the inputs, as the authors' code means to. `free`: it grows, as in the runs that they published, where that
    scaling has no effect."""
    response: Literal["linear", "sigmoid"] = "linear"
    """What goes out: Wx, or 1/(1 + exp(−Wx − b)), which is what their network of sigmoids answers with."""


class WeightMirror(FeedbackChain):
    """B ← (1 − d)B + η Σ_n y xᵀ with noise x and its response y = Wx, for every layer and after every step.

    E[y xᵀ] = W·a²/12, so noise alone teaches B where W points; with d = η n a²/12 B tends to W. B starts at
    N(0, 1/(3·fan_in)). Each layer has noise of its own, as in the authors' code; the kernel of a convolution sees it in
    patches, of which every entry is drawn by itself. The matrices of frozen blocks are mirrored too.
    """

    options_type: ClassVar[type[MethodOptions]] = WeightMirrorOptions
    options: WeightMirrorOptions
    paper: ClassVar[str] = (
        "Akrout, Wilson, Humphreys, Lillicrap and Tweed, Deep learning without weight transport, NeurIPS 32, 2019"
    )
    gamma: ClassVar[str] = "How far the error that came back through the mirrored B points along the gradient."
    no_null: ClassVar[str] = (
        "its feedback is learnt: a fresh draw is the feedback before the mirror, which is no null for what was learnt"
    )

    def draw(self, generator: torch.Generator | None) -> None:
        """One buffer for each weight, of its shape, mirrored as often as is asked for."""
        self._check()
        for name, layer in self.layers():
            self.register_buffer(
                held_as(name), drawn_like(layer, generator, self.options.feedback_variance).to(layer.weight)
            )
        for _ in range(self.options.first_mirrors):
            self.mirror(generator)

    def feedback(self, name: str) -> Tensor:
        """The matrix B in place of the weight of the module of that name, (out, in, …)."""
        return self.get_buffer(held_as(name))

    def after_step(self) -> None:
        """One mirroring of the weights as they are now."""
        self.mirror()

    @torch.no_grad()
    def mirror(self, generator: torch.Generator | None = None) -> None:
        """Noise through every layer, once. None: torch's own generator."""
        o = self.options
        decay = 1 - self.forgetting if o.growth == "decay" else 1.0
        for name, layer in self.layers():
            weight, mirrored = layer.weight.flatten(1), self.feedback(name).view(len(layer.weight), -1)
            noise = o.noise * (_uniform(o.mirror_samples, weight.shape[1], weight, generator) - 0.5)
            answer = self._answer(layer, noise @ weight.T)
            # In one pass over B, which is as large as the network.
            mirrored.addmm_(answer.T, noise, beta=decay, alpha=o.mirror_rate)
            if o.growth == "response":
                carried = _uniform(o.mirror_samples, len(weight), weight, generator) @ mirrored
                mirrored *= 0.5 / carried.std(dim=1, correction=0).mean()

    @property
    def forgetting(self) -> float:
        """d = η n a²/12: with it W is what B tends to."""
        return self.options.mirror_rate * self.options.mirror_samples * self.options.noise**2 / 12

    def _answer(self, layer: Layer, response: Tensor) -> Tensor:
        if self.options.response == "linear":
            return response
        return (response if layer.bias is None else response + layer.bias).sigmoid()

    def _check(self) -> None:
        o = self.options
        require_positive(self._name(), mirror_rate=o.mirror_rate, noise=o.noise)
        require_at_least(self._name(), 1, mirror_samples=o.mirror_samples)
        require_at_least(self._name(), 0, first_mirrors=o.first_mirrors)
        if o.growth == "decay" and not self.forgetting < 1:
            raise InputError(
                f"{self._name()}: mirror_rate · mirror_samples · noise²/12 is {self.forgetting:.3g}; expected less "
                "than 1, because with growth 'decay' that is the share of B which each mirroring replaces."
            )


def _uniform(rows: int, columns: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """U(0, 1), (rows, columns)."""
    if generator is None:
        return torch.rand(rows, columns, dtype=like.dtype, device=like.device)
    return torch.rand(rows, columns, generator=generator).to(like)
