"""State Bridge: predict the last state from any site, and ask how the loss depends on that site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.bridge import NOTHING_FOLLOWS, Bridge, BridgeOptions, Predictor, scale_of, squared_error
from walkback.lab.zoo.methods.credit_forms import zero_as_one
from walkback.lab.zoo.methods.site_vectors import as_last_site, as_vectors, read_vectors
from walkback.lab.zoo.precision import in_full
from walkback.protocol.credit import Trace

StateTarget = Literal["raw", "scaled", "normalised", "layer_norm"]
LAYER_NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class StateBridgeOptions(BridgeOptions):
    """What the predictor sees and learns, and where the credit is read off.

    The source study's reading is context=error, target=normalised, predictor_layers=3. The defaults are the one
    that was fitted before it was public.
    """

    target: StateTarget = "raw"
    """What the predictor is trained on. `raw`: ‖ĥ_L − h_L‖². `scaled`: the same of states divided by the batch's mean
    ‖h_L‖. `normalised`: ‖ĥ_L − h_L‖² over the batch's mean ‖h_L‖². `layer_norm`: the squared error to LayerNorm(h_L)
    per entry. What is predicted in other units is brought back to those of h_L before the readout. The source says
    “normalised MSE” and not by what; the last two are both readings of it, and `normalised` is the one tried here."""
    credit_from: Literal["predictor", "prediction"] = "predictor"
    """The loss's gradient carried back through the predictor to h_l (the source), or left at the predicted state."""
    context: Literal["none", "error"] = "none"
    """`error`: the predictor sees the output error e beside the state and the layer (the source)."""


class BridgedStates(NamedTuple):
    """What a predictor makes of some sites."""

    states: Tensor
    """ĥ_L in the units of h_L, (sites, B, d)."""
    loss: Tensor
    """ℓ(ĥ_L), summed over sites and samples."""
    objective: Tensor
    """What the predictor is trained on."""


def bridge_states(
    predictor: Predictor,
    vectors: Sequence[Tensor],
    sites: Sequence[int],
    context: Sequence[Tensor],
    last: Tensor,
    terminal_loss: Callable[[Tensor], Tensor],
    target: StateTarget,
) -> BridgedStates:
    """Predict h_L from the vectors (B, d_l) of these sites; the credit of a site is the slope of the loss there.

    `last` is h_L itself, (B, d); `terminal_loss` sums the losses of states (sites, B, d), so that each sample keeps
    the gradient of its own.
    """
    shift, scale = _units(last, target)
    predictions = predictor(vectors, sites, *context)
    states = predictions * scale + shift
    wanted = (last - shift) / scale
    objective = squared_error(predictions, wanted)
    if target in ("normalised", "layer_norm"):
        # Relative to the mean ‖h_L‖² of the batch; LayerNorm's is the number of entries.
        objective = objective / zero_as_one(wanted.square().sum(dim=-1).mean())
    return BridgedStates(states, terminal_loss(states), objective)


def _units(last: Tensor, target: StateTarget) -> tuple[Tensor, Tensor]:
    """(shift, scale) such that the predictor learns (h_L − shift) / scale."""
    nothing = last.new_zeros(())
    if target == "layer_norm":
        variance, mean = torch.var_mean(last, dim=-1, keepdim=True, correction=0)
        return mean, (variance + LAYER_NORM_EPSILON).sqrt()
    return nothing, scale_of(last, "scaled" if target == "scaled" else "raw")


class StateBridge(Bridge):
    """ĥ_L = predictor(LayerNorm(h_l), l), trained on ‖ĥ_L − h_L‖²; a_l = ∂ℓ(head(ĥ_L))/∂h_l.

    The head holds the terminal LayerNorm, if there is one. The defaults (no error seen, raw target, one hidden layer)
    are a reading chosen among variants because it behaved as published, before the definition was public. The
    source study's predictor sees the output error e too and is trained on a normalised squared error: see the options.
    """

    paper: ClassVar[str] = "the State Bridge of arXiv 2606.21126, 2026"
    gamma: ClassVar[str] = (
        "How far the slope of the loss at the predicted h_L points along the gradient; the null draws the predictor."
    )
    defined_on: ClassVar[str] = "every architecture with one answer per sample"

    credit_is_gradient: ClassVar[bool] = True
    options_type: ClassVar[type[MethodOptions]] = StateBridgeOptions
    options: StateBridgeOptions

    def context_size(self) -> int:
        """The error e, if it is seen."""
        return self.model.data.classes if self.options.context == "error" else 0

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], Tensor | None]:
        """∂ℓ(head(ĥ_L))/∂h_l of each site, and the predictor's objective over these sites."""
        if not sites:
            return NOTHING_FOLLOWS
        context = [trace.error.to(trace.logits.dtype)] if self.options.context == "error" else []
        last = read_vectors(trace.hiddens[-1])
        with torch.enable_grad():
            reads = [trace.hiddens[site].detach().requires_grad_() for site in sites]
            vectors = [as_vectors(read) for read in reads]
            bridged = bridge_states(
                self.predictor, vectors, sites, context, last, lambda states: self._loss_of(states, trace.targets),
                self.options.target,
            )  # fmt: skip
        if self.options.credit_from == "predictor":
            return torch.autograd.grad(bridged.loss, reads, retain_graph=True), bridged.objective
        (at_prediction,) = torch.autograd.grad(bridged.loss, bridged.states, retain_graph=True)
        return [self.as_credit(g, site) for g, site in zip(at_prediction, sites, strict=True)], bridged.objective

    def _loss_of(self, states: Tensor, targets: Tensor) -> Tensor:
        """Summed over samples and sites, so that each keeps the gradient of its own loss."""
        readable = as_last_site(states.flatten(0, 1), self.model.site_shapes[-1])
        return F.cross_entropy(in_full(self.model.head(readable)), targets.repeat(len(states)), reduction="sum")
