"""Predictive coding: states settle between what is predicted of them and what they predict, then the weights learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.lab.zoo.answers import output_error
from walkback.lab.zoo.contract import BlockModel, Method, MethodOptions, StepResult
from walkback.lab.zoo.methods.local_step import LocalPass, follow, local_pass
from walkback.lab.zoo.methods.settling import ByErrors, ByStates, Inference
from walkback.lab.zoo.modes import evaluating, statistics_still
from walkback.lab.zoo.options import require_at_least, require_positive
from walkback.lab.zoo.precision import FROM_DIFFERENCES
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class PCOptions(MethodOptions):
    """How the states settle, and when the weights learn."""

    steps: int = 20
    """T: how often the states are moved for a batch."""
    step: float = 0.1
    """How far a state, or an error, moves along the negative slope of the free energy."""
    inference: Literal["states", "errors"] = "states"
    """What moves. `states`: z_l itself, all at once; the loss comes down by one site per step. `errors`: ε_l, with
    z_l = f_l(z_{l−1}) + ε_l made from them in a forward pass, so that every site hears of the loss at once; the first
    step is −step times the true gradient (Goemaere et al. 2025)."""
    learning: Literal["sequential", "incremental"] = "sequential"
    """`sequential`: the weights learn once, when all T steps are made. `incremental`: after each of them, by a step of
    the optimizer (Salvatori et al. 2024), so that a batch makes T of these."""


@dataclass
class _Settling:
    """A batch on its way."""

    inputs: Tensor
    moving: list[Tensor]
    result: StepResult
    done: int = 0


class PC(Method):
    """F = Σ_l ½‖z_l − f_l(z_{l−1})‖² + ℓ(head(z_L)), summed over samples: relax z from the forward pass, then ∂F/∂W.

    f_0 is the stem and f_l a block, skip included. The credit, which is also what alignment is measured on, is
    a_l = f_l(z_{l−1}) − z_l at the settled states; block l follows it at z_{l−1}, and the head its own loss at z_L. The
    penalty is on the branches there. With `inference=errors` and `steps=1` a_l is step · g_l, which is
    backpropagation's own credit, and the identity check of a report says so. Where the stem has no weights, z_0 is data
    and clamped; nothing follows a_0 then, and it is reported as ∂F/∂z_0, the error of a settled state.
    """

    paper: ClassVar[str] = (
        "Whittington and Bogacz, An approximation of the error backpropagation algorithm in a predictive coding "
        "network with local Hebbian synaptic plasticity, Neural Computation 29, 2017; incremental: Salvatori et al., "
        "ICLR 2024 (arXiv 2212.00720); errors: Goemaere et al., arXiv 2505.20137, 2025"
    )
    fp32_only: ClassVar[str] = FROM_DIFFERENCES
    gamma: ClassVar[str] = (
        "How far the error of a settled state points along the gradient; there is no feedback to draw, and so no null."
    )
    options_type: ClassVar[type[MethodOptions]] = PCOptions
    options: PCOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """No feedback to draw; the options are checked."""
        require_at_least(self._name(), 1, steps=self.options.steps)
        require_positive(self._name(), step=self.options.step)
        self.inference: Inference = (ByErrors if self.options.inference == "errors" else ByStates)(self.model)
        self._settling: _Settling | None = None

    @property
    def phases(self) -> int:
        """How many steps of the optimizer a batch makes."""
        return self.options.steps if self.options.learning == "incremental" else 1

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L at the settled states, in eval mode, with the weights as they are."""
        with evaluating(self.model), torch.no_grad():
            first = trace.hiddens[0]
            moving = self._moved(self.inference.start(trace.hiddens), first, trace.targets, self.options.steps)
            states = self.inference.states(moving, first)
            writes = [first, *(block(read) for block, read in zip(self.model.blocks, states[:-1], strict=True))]
            credits = [write - state for write, state in zip(writes, states, strict=True)]
            if self.inference.clamped:
                credits[0] = self.inference.slopes(moving, first, trace.targets)[0]
        return credits

    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """The forward pass, the settling or a step of it, then ∂F/∂W where the states are."""
        settling, steps = self._settling, self.options.steps // self.phases
        if settling is None or settling.inputs is not inputs:
            settling = self._begun(inputs, targets)
        with statistics_still(self.model):
            with torch.no_grad():
                first = self.model.stem(inputs)
            settling.moving = self._moved(settling.moving, first, targets, steps)
            with torch.no_grad():
                states = self.inference.states(settling.moving, first)
            local = pass_at(self.model, inputs, states, targets)
        credits = {site: write.detach() - states[site] for site, write in enumerate(local.writes)}
        follow(self.model, local, credits, self.options)
        settling.done += 1
        self._settling = settling if settling.done < self.phases else None
        return settling.result

    def _begun(self, inputs: Tensor, targets: Tensor) -> _Settling:
        """A batch at its forward pass, the only one in which BatchNorm's statistics move."""
        with torch.no_grad():
            forward = local_pass(self.model, inputs, targets)
        return _Settling(inputs, self.inference.start(forward.trace.hiddens), forward.result)

    def _moved(self, moving: Sequence[Tensor], first: Tensor, targets: Tensor, steps: int) -> list[Tensor]:
        return self.inference.moved(moving, first, targets, steps=steps, step=self.options.step)


def pass_at(model: BlockModel, inputs: Tensor, states: Sequence[Tensor], targets: Tensor) -> LocalPass:
    """The graph of every module at the state that it reads: f_l(z_{l−1}), and head(z_L)."""
    writes, branches = [model.stem(inputs)], []
    for block, read in zip(model.blocks, states[:-1], strict=True):
        branches.append(block.branch(read))
        writes.append(block.join(read, branches[-1]))
    logits = model.head(states[-1])
    trace = Trace(inputs, states, logits.detach(), targets, output_error(logits, targets, model.output))
    return LocalPass(trace, writes, branches, logits, [None] * len(writes), model.output)
