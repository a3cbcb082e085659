"""Sign symmetry: the error travels back through matrices that share the signs of the weights, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.feedback_chain import FeedbackChain, drawn_like, held_as, initial_scale


@dataclass(frozen=True)
class SignSymmetryOptions(MethodOptions):
    """Where the magnitudes come from."""

    variant: Literal["usf", "brsf", "frsf"] = "usf"
    """`usf`: one magnitude s for all of a layer. `brsf`: random ones, drawn anew after every step. `frsf`: random ones,
    drawn once."""


class SignSymmetry(FeedbackChain):
    """B = s·sign(W) (uSF), or |R|∘sign(W) with R drawn anew after each step (brSF) or once (frSF).

    The signs are those of the weights as they are now. s = 1/√(3·fan_in) and R ~ N(0, s²): the size of torch's own
    initial weights. Liao et al. have s = 1, and hold the error with batch normalisation or by the sign of the update;
    that s is the size of initial weights is what Moskovitz et al. (arXiv 1812.06488, 2018) and Xiao et al. (arXiv
    1811.03567, 2018) found to be needed in deep networks.
    """

    options_type: ClassVar[type[MethodOptions]] = SignSymmetryOptions
    options: SignSymmetryOptions
    paper: ClassVar[str] = "Liao, Leibo and Poggio, How important is weight symmetry in backpropagation?, AAAI 30, 2016"
    gamma: ClassVar[str] = "How far an error that came back by the right signs alone points along the gradient."
    no_null: ClassVar[str] = (
        "its feedback has the signs of the weights whatever is drawn, so fresh magnitudes are as aligned as its own"
    )

    def draw(self, generator: torch.Generator | None) -> None:
        """|R| for each weight, where the variant has one."""
        if self.options.variant != "usf":
            for name, layer in self.layers():
                self.register_buffer(held_as(name), drawn_like(layer, generator).abs())

    def feedback(self, name: str) -> Tensor:
        """The matrix B in place of the weight of the module of that name, (out, in, …)."""
        layer = self.layer(name)
        signs = layer.weight.detach().sign()
        return signs.mul_(initial_scale(layer) if self.options.variant == "usf" else self.get_buffer(held_as(name)))

    def after_step(self) -> None:
        """Draw every R of brSF anew."""
        if self.options.variant == "brsf":
            for name, layer in self.layers():
                self.get_buffer(held_as(name)).normal_(std=initial_scale(layer)).abs_()
