"""Mono-Forward: every layer learns with a projection of its own to the classes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from walkback.lab.zoo.answers import mean_loss
from walkback.lab.zoo.methods.local_objectives import LocalObjectives
from walkback.lab.zoo.methods.site_readouts import readouts, written_sites


class MonoForward(LocalObjectives):
    """Stem and blocks each follow the loss of G_l = M_l h_l, M_l learnt by the same loss, gradients cut between.

    The head is the projection of the last site, so that the network answers by the last layer's goodness, which the
    authors call BP-pred. Maps and tokens are read flattened, averaged to at most 4096 values;
    where every token has an answer, each is read by itself.
    """

    paper: ClassVar[str] = (
        "Gong, Li and Abdulla, Mono-Forward: backpropagation-free algorithm for efficient neural network training "
        "harnessing local errors, arXiv 2501.09238, 2025"
    )
    gamma: ClassVar[str] = "N/A, because each layer follows the loss of its own projection, and no error from above."

    def draw(self, generator: torch.Generator | None) -> None:
        """M_l of every site but the last, whose projection is the head."""
        self.projections = readouts(self.model, generator, sites=written_sites(self.model)[:-1], bias=False)

    def local_loss(self, site: int, write: Tensor, targets: Tensor) -> Tensor:
        """CE(G_l, y)."""
        return mean_loss(self.goodness(site, write), targets, self.model.output)

    def goodness(self, site: int, write: Tensor) -> Tensor:
        """G_l, shaped like the logits."""
        if str(site) in self.projections:
            return self.projections[str(site)](write)  # type: ignore[no-any-return]
        # The head learns from its own loss in the same step; here it only says where the last block should go.
        head = self.model.head
        still = {name: parameter.detach() for name, parameter in head.named_parameters()}
        return functional_call(head, still, (write,))  # type: ignore[no-any-return]
