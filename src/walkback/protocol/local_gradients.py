"""What a credit rule and the true gradient ask of every parameter, from one forward pass of any network.

Block l follows the gradient of ⟨h_l, a_l⟩ with respect to its own parameters, the stem that of ⟨h_0, a_0⟩, and what
lies behind the last site the error at the logits. The parameters of block l reach h_l through block l alone, so nothing
need be cut. With the true gradient as credit this is backpropagation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from walkback.protocol.batches import Batch
from walkback.protocol.credit import CreditRule, Trace, credits_for
from walkback.protocol.losses import Loss, error_at_logits
from walkback.protocol.parameters import parameters_of
from walkback.protocol.site_reader import SiteReader
from walkback.protocol.sites import Chain, samples_first

Gradients = dict[str, Tensor]


class LiveSites(SiteReader):
    """Reads the sites with their graph, which begins at the network's input."""

    def _read(self, stream: Tensor) -> None:
        # A copy in the graph: later changes in place do not reach it.
        self.values.append(stream.clone())


@dataclass(frozen=True)
class Asked:
    """Gradients of the loss averaged over a batch, by parameter."""

    true: Gradients
    """Backpropagation's."""
    claimed: Gradients | None
    """The credit rule's; None where there is none."""
    layers: dict[str, int]
    """The first site that each parameter reaches; one more than the last for what lies behind it."""


def gradients_of(model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, rule: CreditRule | None) -> Asked:
    """Both gradients of every parameter that learns; a parameter that nothing reaches has none."""
    reader = LiveSites(chain, gradients=False)
    with torch.enable_grad(), reader.attached():
        logits = batch.call(model)
        reader.check_complete()
    learning = {name: p for name, p in parameters_of(model).items() if p.requires_grad}
    error = error_at_logits(loss, logits, batch.targets)
    upstream = (error / batch.size).to(logits.dtype)
    sites = [samples_first(h, tap, len(logits)) for h, tap in zip(reader.values, chain.taps, strict=True)]
    true = _grads(logits, learning, upstream)
    layers = _layers(sites, learning)
    if rule is None:
        return Asked(true, None, layers)
    hiddens = [site.detach() for site in sites]
    credits = credits_for(rule, Trace(batch.inputs, hiddens, logits.detach(), batch.targets, error))
    claimed: Gradients = {}
    for number, (site, credit) in enumerate(zip(sites, credits, strict=True)):
        own = {name: p for name, p in learning.items() if layers[name] == number}
        claimed |= _grads(site, own, (credit / batch.size).to(site.dtype))
    behind = {name: p for name, p in learning.items() if layers[name] == len(sites)}
    return Asked(true, claimed | _grads(logits, behind, upstream), layers)


def _grads(output: Tensor, parameters: dict[str, nn.Parameter], upstream: Tensor) -> Gradients:
    if not parameters or not output.requires_grad:
        return {}
    found = torch.autograd.grad(output, list(parameters.values()), upstream, retain_graph=True, allow_unused=True)
    return {name: grad.detach() for name, grad in zip(parameters, found, strict=True) if grad is not None}


def _layers(sites: Sequence[Tensor], parameters: dict[str, nn.Parameter]) -> dict[str, int]:
    layers: dict[str, int] = {}
    for number, site in enumerate(sites):
        left = {name: p for name, p in parameters.items() if name not in layers}
        layers |= dict.fromkeys(_grads(site, left, torch.ones_like(site)), number)
    return {name: layers.get(name, len(sites)) for name in parameters}
