"""State Bridge: predict the last state from any site, and ask how the loss depends on that site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.protocol.credit import Trace
from walkback.zoo.contract import MethodOptions
from walkback.zoo.methods.bridge import Bridge, BridgeOptions, scale_of, squared_error
from walkback.zoo.methods.site_vectors import as_last_site, as_vectors, read_vectors


@dataclass(frozen=True)
class StateBridgeOptions(BridgeOptions):
    """What the predictor learns, and where the credit is read off."""

    target: Literal["raw", "scaled"] = "raw"
    """h_L as it is, or divided by the batch's mean ‖h_L‖ (and multiplied again before the readout)."""
    credit_from: Literal["predictor", "prediction"] = "predictor"
    """The loss's gradient carried back through the predictor to h_l, or left at the predicted state."""


class StateBridge(Bridge):
    """ĥ_L = predictor(LayerNorm(h_l), l), trained on ‖ĥ_L − h_L‖²; a_l = ∂ℓ(head(ĥ_L))/∂h_l.

    The record names this method and gives its results, no more. The definition, and the defaults (raw
    target, credit through the predictor, given to the block that reads h_l, scaled to unit norm per sample),
    are a reading chosen among variants because it behaves as published: fitted, not confirmed.
    """

    options_type: ClassVar[type[MethodOptions]] = StateBridgeOptions
    options: StateBridgeOptions

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], Tensor]:
        """∂ℓ(head(ĥ_L))/∂h_l of each site, and the predictor's squared error over these sites."""
        target = read_vectors(trace.hiddens[-1])
        scale = scale_of(target, self.options.target)
        with torch.enable_grad():
            reads = [trace.hiddens[site].detach().requires_grad_() for site in sites]
            predictions = self.predictor([as_vectors(read) for read in reads], sites)
            states = predictions * scale
            loss = self._loss_of(states, trace.targets)
            objective = squared_error(predictions, target / scale)
        if self.options.credit_from == "predictor":
            return torch.autograd.grad(loss, reads, retain_graph=True), objective
        (at_prediction,) = torch.autograd.grad(loss, states, retain_graph=True)
        return [self.as_credit(g, site) for g, site in zip(at_prediction, sites, strict=True)], objective

    def _loss_of(self, states: Tensor, targets: Tensor) -> Tensor:
        """Summed over samples and sites, so that each keeps the gradient of its own loss."""
        readable = as_last_site(states.flatten(0, 1), self.model.site_shapes[-1])
        return F.cross_entropy(self.model.head(readable), targets.repeat(len(states)), reduction="sum")
