"""The learning rule of Credit Bridge: a scalar value of every site, whose slope is that site's credit.

It knows vectors, a context and the terminal loss, and nothing of networks, so that it can be tried on any system of
which the states are known.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from walkback.lab.zoo.methods.bridge import BridgeOptions, Predictor
from walkback.lab.zoo.methods.credit_forms import zero_as_one
from walkback.lab.zoo.options import require_at_least, require_at_most, require_positive


@dataclass(frozen=True)
class ValueOptions(BridgeOptions):
    """The value network and what it is trained on.

    `predictor_width` and `predictor_layers` are its own, 256 and 3 as in the source study, which gives them and the
    first five below for its toy problem (linear, quadratic); that they are the same on CIFAR-10 is taken on trust.
    """

    predictor_layers: int = 3
    noisy_samples: int = 8
    """K: how many noisy neighbours the soft-min is over (source: 8)."""
    noise: float = 0.1
    """σ: the size of the noise (source: 0.1). That it is relative to RMS(h) of the sample is ours."""
    temperature: float = 0.1
    """λ of the soft-min (source: 0.1)."""
    average_decay: float = 0.995
    """How much of the running average of the value network stays at each step (source: 0.995)."""
    gradient_weight: float = 1.0
    """Of the terminal gradient's term beside the two terms of values (source: 1). That it is relative to the mean
    square of the terminal gradient, and the terms of values have weight 1, is ours."""
    consistency_share: float = 1.0
    """The share of the batch, its first samples, on which neighbouring depths are compared. Ours; it saves time."""


class Terminal(NamedTuple):
    """What the value of the last site has to agree with."""

    losses: Tensor
    """ℓ of each sample, (B,)."""
    gradients: Tensor
    """∂ℓ/∂h_L of each sample's own loss, (B, …)."""


def terminal_of(losses: Callable[[Tensor], Tensor], last: Tensor) -> Terminal:
    """The losses of the last states and their gradients; `losses` maps (B, …) to (B,), each of its own sample."""
    with torch.enable_grad():
        last = last.detach().requires_grad_()
        found = losses(last)
        (gradients,) = torch.autograd.grad(found.sum(), last)
    return Terminal(found.detach(), gradients)


class ValueBridge(nn.Module):
    """V(h_l, l, s) with its running average V̄, and the three things that V is trained on.

    (V(h_l) − softmin_k V̄(h_{l+1} + σ RMS(h_{l+1}) noise_k))², the mean over depths and samples; (V(h_L) − ℓ)²; and
    ‖∇V(h_L) − ∂ℓ/∂h_L‖² over the mean ‖∂ℓ/∂h_L‖². States are vectors (B, d_l); s is the context, (B, c).
    """

    def __init__(self, sizes: Sequence[int], context_size: int, options: ValueOptions, owner: str = "value") -> None:
        super().__init__()
        _check(owner, options)
        width, layers = options.predictor_width, options.predictor_layers
        self.network = Predictor(sizes, context_size, width, 1, layers)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.options = options
        self.last = len(sizes) - 1

    @torch.no_grad()
    def update_average(self) -> None:
        """V̄ ← decay · V̄ + (1 − decay) · V, once for each training step."""
        pairs = zip(self.average.parameters(), self.network.parameters(), strict=True)
        for average, parameter in pairs:
            average.lerp_(parameter, 1 - self.options.average_decay)

    def slopes(self, vectors: Sequence[Tensor], sites: Sequence[int], context: Tensor) -> Sequence[Tensor]:
        """∇V at these sites, (B, d_l) each; vectors[i] is the state of sites[i]."""
        with torch.enable_grad():
            reads = [vector.detach().requires_grad_() for vector in vectors]
            total = self.network(reads, sites, context).sum()
        return torch.autograd.grad(total, reads)

    def learn(
        self, vectors: Sequence[Tensor], context: Tensor, terminal: Terminal, sites: Sequence[int] = ()
    ) -> tuple[list[Tensor], Tensor]:
        """The slopes at some sites, and the objective, in one pass; `vectors` are the states of all sites."""
        with torch.enable_grad():
            slope, objective = self._at_the_end(vectors[-1], context, terminal)
            slopes, values = {self.last: slope.detach()}, None
            if below := [site for site in sites if site != self.last]:
                reads = [vector.detach().requires_grad_() for vector in vectors[:-1]]
                values = self.network(reads, range(self.last), context)
                found = torch.autograd.grad(values.sum(), [reads[site] for site in below], retain_graph=True)
                slopes |= dict(zip(below, found, strict=True))
            if self.last:
                objective = objective + self._consistency(vectors, context, values)
            objective = _ending_at(objective, list(self.network.parameters()))
        return [slopes[site] for site in sites], objective

    def _at_the_end(self, last: Tensor, context: Tensor, terminal: Terminal) -> tuple[Tensor, Tensor]:
        """∇V(h_L), and what is learnt there: the loss as value, its gradient as slope."""
        read = last.detach().requires_grad_()
        values = self.network([read], [self.last], context).view(-1)
        (slope,) = torch.autograd.grad(values.sum(), read, create_graph=True)
        by_value = (values - terminal.losses).square().mean()
        return slope, by_value + self.options.gradient_weight * _relative_error(slope, terminal.gradients)

    def _consistency(self, vectors: Sequence[Tensor], context: Tensor, values: Tensor | None) -> Tensor:
        """Mean squared difference of V at h_0 … h_{L−1} to the soft-min one depth further on; values may be known."""
        seen = math.ceil(self.options.consistency_share * len(context))
        first, context = [vector[:seen].detach() for vector in vectors], context[:seen]
        if values is None or seen < values.shape[1]:
            values = self.network(first[:-1], range(self.last), context)
        return (values.squeeze(-1) - self.soft_minima(first[1:], context)).square().mean()

    @torch.no_grad()
    def soft_minima(self, vectors: Sequence[Tensor], context: Tensor) -> Tensor:
        """softmin_k V̄ at noisy copies of h_1 … h_L, (L, B); one noise serves all sites of a size.

        Depth by depth, because what 8 × 128 samples need stays in the cache, and what all depths need does not.
        """
        count, batch = self.options.noisy_samples, len(context)
        sizes = dict.fromkeys(vector.shape[1] for vector in vectors)
        noise = {size: context.new_empty(count, batch, size).normal_() for size in sizes}
        many = context.repeat(count, 1)
        minima = []
        for site, vector in enumerate(vectors, start=1):
            scale = self.options.noise * vector.square().mean(dim=1, keepdim=True).sqrt()
            noisy = vector + scale * noise[vector.shape[1]]
            values = self.average([noisy.flatten(0, 1)], [site], many).view(count, batch)
            minima.append(soft_minimum(values, self.options.temperature))
        return torch.stack(minima)


def soft_minimum(values: Tensor, temperature: float) -> Tensor:
    """−λ log mean_k exp(−v_k / λ), (K, …) → (…)."""
    return -temperature * (torch.logsumexp(-values / temperature, dim=0) - math.log(len(values)))


def _relative_error(found: Tensor, wanted: Tensor) -> Tensor:
    """Mean of (found − wanted)² over the mean of wanted²."""
    return (found - wanted).square().mean() / zero_as_one(wanted.square().mean())


def _ending_at(objective: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """The objective with a graph that ends at the parameters.

    The states ask for a gradient too, that of V; of the objective they get none, which nobody would read.
    """
    gradients = torch.autograd.grad(objective, parameters)
    ending: Tensor = _KnownGradients.apply(objective.detach(), gradients, *parameters)  # type: ignore[no-untyped-call]
    return ending


class _KnownGradients(torch.autograd.Function):
    """A number whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *(scale * gradient for gradient in ctx.gradients))


def _check(owner: str, options: ValueOptions) -> None:
    require_at_least(owner, 1, predictor_width=options.predictor_width, predictor_layers=options.predictor_layers)
    require_at_least(owner, 1, noisy_samples=options.noisy_samples)
    require_at_least(owner, 0, noise=options.noise, gradient_weight=options.gradient_weight)
    require_at_least(owner, 0, average_decay=options.average_decay)
    require_positive(owner, temperature=options.temperature, consistency_share=options.consistency_share)
    require_at_most(owner, 1, average_decay=options.average_decay, consistency_share=options.consistency_share)
