"""Forward gradient: the slope along a random direction, by forward-mode differentiation, times that direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import functional_call

from walkback.errors import InputError, NoCredit
from walkback.lab.zoo.answers import mean_loss, sample_losses
from walkback.lab.zoo.contract import MethodOptions, StepResult
from walkback.lab.zoo.methods.local_step import LocalMethod, LocalOptions, follow, local_pass
from walkback.lab.zoo.methods.site_readouts import readouts, written_sites
from walkback.lab.zoo.methods.step_draws import StepDraws, normal_like
from walkback.lab.zoo.methods.tangents import moving, tangent_of, tangents
from walkback.lab.zoo.modes import statistics_still
from walkback.lab.zoo.options import require_at_least
from walkback.lab.zoo.precision import in_full, scaled, scales_gradients
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class ForwardGradientOptions(LocalOptions):
    """What is perturbed, and which loss answers."""

    perturb: Literal["activity", "weights"] = "activity"
    """`activity`: the states of every sample, with a direction of its own (Ren et al. 2023). `weights`: those of stem
    and blocks, with one direction for the batch (Baydin et al. 2022)."""
    loss: Literal["global", "local"] = "global"
    """Of `activity`. `global`: the loss at the head answers for all sites together. `local`: each site has a readout
    whose loss answers for it alone, and nothing crosses a site."""
    directions: int = 1
    """Over how many directions a step is averaged; the variance falls as one over this."""


class ForwardGradient(LocalMethod):
    """a_l = (Σ_k g_k·v_k) v_l with v ~ N(0, 1) at every site, drawn anew at every step: g_l on average.

    The slope Σ_k g_k·v_k of a sample's own loss comes with the forward pass, as a Jacobian-vector product, and no pass
    goes back. Blocks then follow a_l by their own gradient, as with any credit here; the authors perturb every layer.
    `local`: a_l = (∂L_l/∂h_l·v_l) v_l of the loss L_l of a linear readout. `weights`: the update is (∇ℓ·v) v at every
    parameter of stem and blocks. Readouts and the head learn by their own gradient, as in Ren et al.'s code.
    """

    paper: ClassVar[str] = (
        "Ren, Kornblith, Liao and Hinton, Scaling forward gradient with local losses, ICLR 2023 (arXiv 2210.03310); "
        "weights: Baydin, Pearlmutter, Syme, Wood and Torr, Gradients without backpropagation, arXiv 2202.08587, 2022"
    )
    gamma: ClassVar[str] = (
        "How far the credit of one step points along the gradient: of one direction at a site of d values about 0.8/√d "
        "at most, while the mean over steps is the gradient; N/A with local losses and with perturbed weights."
    )
    no_null: ClassVar[str] = "its directions are drawn anew at every step, so that a fresh draw is the method itself"
    credit_is_gradient: ClassVar[bool] = True
    options_type: ClassVar[type[MethodOptions]] = ForwardGradientOptions
    options: ForwardGradientOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """The readouts, where there are any, and the seed of the directions."""
        options = self.options
        require_at_least(self._name(), 1, directions=options.directions)
        if options.perturb == "weights":
            self._require("loss", "global", "its directions are those of all weights together")
            self._require("credit_norm", "none", "no site gets a credit")
            self._require("credit_site", "written", "no site gets a credit")
        if options.loss == "local":
            self.readouts = readouts(self.model, generator, sites=written_sites(self.model))
        self.draws = StepDraws(generator)

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L with the directions of the next step."""
        if self.options.perturb == "weights":
            raise NoCredit("by design: the weights are perturbed, and no site gets a credit.")
        if self.options.loss == "local":
            raise NoCredit("by design: each site answers to a loss of its own, and none to the loss at the head.")
        return super().credits(trace)

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], Tensor | None]:
        """The mean over directions v of the slope along v times v, at these sites; the losses of their readouts."""
        generator, count = self.draws.generator(trace.logits.device), self.options.directions
        hiddens = [in_full(hidden.detach()) for hidden in trace.hiddens]
        sums = [torch.zeros_like(hiddens[site]) for site in sites]
        for _ in range(count):
            # At all sites, whether they are asked for or not: what learns beside a frozen block draws as without it.
            directions = [normal_like(hidden, generator) for hidden in hiddens]
            slopes = self._slopes(trace, directions, sites)
            for total, site, slope in zip(sums, sites, slopes, strict=True):
                total += slope.view(-1, *[1] * (total.ndim - 1)) * directions[site] / count
        return sums, self._objective(trace, sites)

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """One forward pass with tangents for each direction; the next step has others."""
        perturbed = self.options.perturb == "weights"
        result = self._accumulate_by_weights(inputs, targets) if perturbed else super().accumulate(inputs, targets)
        self.draws.advance()
        return result

    def _slopes(self, trace: Trace, directions: Sequence[Tensor], sites: Sequence[int]) -> list[Tensor]:
        """The slope of each sample's loss for each of these sites, (B,) each: one for all, or one of its own."""
        if self.options.loss == "local":
            return [self._local_slope(trace, site, directions[site]) for site in sites]
        return [self._global_slope(trace, directions)] * len(sites)

    def _global_slope(self, trace: Trace, directions: Sequence[Tensor]) -> Tensor:
        """Σ_k g_k·v_k: the tangent of each sample's loss where every site is moved along its v_k."""
        with tangents(trace.logits.device), statistics_still(self.model):
            hidden = moving(in_full(trace.hiddens[0].detach()), directions[0])
            for block, direction in zip(self.model.blocks, directions[1:], strict=True):
                hidden = moving(block(hidden), direction)
            return tangent_of(sample_losses(self.model.head(hidden), trace.targets, self.model.output))

    def _local_slope(self, trace: Trace, site: int, direction: Tensor) -> Tensor:
        """∂L_l/∂h_l·v_l of each sample; nothing where no weights write the site, and so no loss is its own."""
        if str(site) not in self.readouts:
            return direction.new_zeros(len(direction))
        with tangents(direction.device):
            scores = self.readouts[str(site)](moving(in_full(trace.hiddens[site].detach()), direction))
            return tangent_of(sample_losses(scores, trace.targets))

    def _objective(self, trace: Trace, sites: Sequence[int]) -> Tensor | None:
        """What the readouts of these sites learn."""
        if self.options.loss == "global":
            return None
        own = [str(site) for site in sites if str(site) in self.readouts]
        scores = [self.readouts[site](trace.hiddens[int(site)].detach()) for site in own]
        return torch.stack([mean_loss(told, trace.targets) for told in scores]).sum() if scores else None

    def _accumulate_by_weights(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """(∇ℓ·v) v of the batch's mean loss at stem and blocks; the head and the penalty by their own gradient."""
        local = local_pass(self.model, inputs, targets)
        nothing = {index: torch.zeros_like(local.writes[index]) for index in local.learning}
        follow(self.model, local, nothing, self.options)
        generator, count = self.draws.generator(inputs.device), self.options.directions
        for _ in range(count):
            directions = {name: normal_like(weight, generator) for name, weight in self._perturbed().items()}
            slope = self._weight_slope(directions, inputs, targets)
            for name, weight in self._perturbed().items():
                if weight.grad is not None:
                    weight.grad.add_(scaled(slope * directions[name]), alpha=1 / count)
        return local.result

    def _perturbed(self) -> dict[str, Tensor]:
        """The weights of stem and blocks, frozen ones too: what learns beside them draws as it would without."""
        return {name: weight for name, weight in self.model.named_parameters() if not name.startswith("head.")}

    def _weight_slope(self, directions: Mapping[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        """∇ℓ·v of the batch's mean loss."""
        weights = self._perturbed()
        with tangents(inputs.device), statistics_still(self.model):
            moved = {name: moving(weights[name].detach(), direction) for name, direction in directions.items()}
            logits = functional_call(self.model, moved, (inputs,))
            return tangent_of(mean_loss(logits, targets, self.model.output))

    def _require(self, option: str, needed: str, why: str) -> None:
        value = getattr(self.options, option)
        if value != needed:
            raise InputError(
                f"{self._name()}: {option} is {value!r} while perturb is 'weights'; expected {needed!r}, because {why}."
            )
