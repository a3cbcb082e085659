"""Credit Bridge as it was fitted before its definition was public: predict the terminal credit as a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.bridge import NOTHING_FOLLOWS, Bridge, BridgeOptions, scale_of, squared_error
from walkback.lab.zoo.methods.site_vectors import as_vectors, read_vectors
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class CreditBridgeVectorOptions(BridgeOptions):
    """What the predictor learns."""

    target: Literal["raw", "scaled"] = "scaled"
    """The terminal credit as it is, or divided by the batch's mean norm of it."""


class CreditBridgeVector(Bridge):
    """a_l = predictor(LayerNorm(h_l), l, e), trained on its squared distance to the terminal credit ∂ℓ/∂h_L.

    Chosen among variants because it behaved as published, at a time when the record gave results and no definition.
    The source study's own Credit Bridge is another, `credit_bridge`: the gradient of a scalar value network.
    """

    paper: ClassVar[str] = "a reading of the Credit Bridge of arXiv 2606.21126, 2026"
    gamma: ClassVar[str] = (
        "How far the predicted terminal credit points along the gradient; the null draws the predictor."
    )
    defined_on: ClassVar[str] = "every architecture with one answer per sample"

    options_type: ClassVar[type[MethodOptions]] = CreditBridgeVectorOptions
    options: CreditBridgeVectorOptions

    def context_size(self) -> int:
        """The error e."""
        return self.model.data.classes

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], Tensor | None]:
        """The prediction at each site, and the predictor's squared error over these sites."""
        if not sites:
            return NOTHING_FOLLOWS
        error = trace.error.to(trace.logits.dtype)
        target = read_vectors(self._terminal_credit(trace.hiddens[-1], error))
        with torch.enable_grad():
            states = [as_vectors(trace.hiddens[site].detach()) for site in sites]
            predictions = self.predictor(states, sites, error)
            objective = squared_error(predictions, target / scale_of(target, self.options.target))
        predicted = predictions.detach()
        return [self.as_credit(p, site) for p, site in zip(predicted, sites, strict=True)], objective

    def _terminal_credit(self, last: Tensor, error: Tensor) -> Tensor:
        """∂ℓ/∂h_L of each sample's own loss, which the head alone determines."""
        with torch.enable_grad():
            last = last.detach().requires_grad_()
            logits = self.model.head(last)
        return torch.autograd.grad(logits, last, error)[0]
