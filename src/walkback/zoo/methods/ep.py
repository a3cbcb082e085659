"""Equilibrium propagation: nudge the states towards a lower loss, and learn from what no longer fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.protocol.credit import Trace
from walkback.zoo.contract import Method, MethodOptions, StepResult
from walkback.zoo.methods.local_step import LocalPass, follow, local_pass
from walkback.zoo.modes import evaluating, statistics_still
from walkback.zoo.options import require_at_least, require_positive


@dataclass(frozen=True)
class EPOptions(MethodOptions):
    """How the nudged phase relaxes."""

    sweeps: int = 4
    """T: how often every state is moved once, from the last site down to the first."""
    step: float = 0.3
    """How far a state moves along −∂(energy + β·loss)/∂s_l. An untrained ViT-Mini needs 0.1: at 0.3 the energy rises
    again after the second sweep, because what attention hands down is large. On the other architectures it falls."""
    beta: float = 1.0
    """β: how hard the loss pulls."""


class EP(Method):
    """Blocks learn what is left of the energy E(s) = ½‖s_0 − stem(x)‖² + Σ_l ½‖s_l − block_l(s_{l−1})‖².

    Free phase: the forward pass, where E is zero. Nudged phase: the states relax on E + β·ℓ, both summed over
    samples, by top-down sweeps. The update is ∂E/∂θ at the nudged state over β: block l follows the credit
    a_l = (block_l(s_{l−1}) − s_l)/β, which is also what alignment is measured on. Relaxed to convergence a_l
    tends to the true gradient as β → 0; after few sweeps it need not. block_l(s) is s + f_l(s) where there is
    a skip. The head learns from its own gradient at the free h_L. The penalty is on the branches at the nudged states,
    where the rest of what the blocks learn is taken.

    The record names this method and gives its results, no more; the energy, the sweeps and the defaults are a
    reading chosen among variants: fitted, not confirmed.
    """

    options_type: ClassVar[type[MethodOptions]] = EPOptions
    options: EPOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """No feedback to draw; the options are checked."""
        require_at_least(self._name(), 1, sweeps=self.options.sweeps)
        require_positive(self._name(), step=self.options.step, beta=self.options.beta)

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_l = (block_l(s_{l−1}) − s_l)/β at the nudged states s, in eval mode."""
        with evaluating(self.model), torch.no_grad():
            nudged = self.relax(trace.hiddens, trace.targets)
            writes = [block(read) for block, read in zip(self.model.blocks, nudged[:-1], strict=True)]
        return self._residuals([trace.hiddens[0], *writes], nudged)

    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """The free phase once, the sweeps, then the graph of every block at the nudged state it reads."""
        free = local_pass(self.model, inputs, targets)
        writes, branches = [free.writes[0]], []
        with statistics_still(self.model):
            nudged = self.relax(free.trace.hiddens, targets)
            for block, read in zip(self.model.blocks, nudged[:-1], strict=True):
                branches.append(block.branch(read))
                writes.append(block.join(read, branches[-1]))
        local = LocalPass(free.trace, writes, branches, free.logits, [None] * len(writes))
        follow(self.model, local, dict(enumerate(self._residuals(writes, nudged))), self.options)
        return local.result

    def relax(self, free: Sequence[Tensor], targets: Tensor) -> list[Tensor]:
        """The states after the sweeps, started at the free ones."""
        states = [state.detach() for state in free]
        for _ in range(self.options.sweeps):
            states = self._sweep(states, free[0].detach(), targets)
        return states

    def _sweep(self, states: Sequence[Tensor], driven: Tensor, targets: Tensor) -> list[Tensor]:
        """Move each state once along −∂(E + β·ℓ)/∂s_l, the last one first; it sees the one above it moved."""
        with torch.enable_grad():
            reads = [state.detach().requires_grad_() for state in states]
            writes = [block(read) for block, read in zip(self.model.blocks, reads[:-1], strict=True)]
            loss = F.cross_entropy(self.model.head(reads[-1]), targets, reduction="sum")
            pull = self.options.beta * loss
        predicted = [driven, *(write.detach() for write in writes)]
        moved = list(states)
        (from_above,) = torch.autograd.grad(pull, reads[-1])
        for site in reversed(range(len(states))):
            moved[site] = states[site] - self.options.step * (states[site] - predicted[site] + from_above)
            if site > 0:
                mismatch = predicted[site] - moved[site]
                (from_above,) = torch.autograd.grad(writes[site - 1], reads[site - 1], mismatch)
        return moved

    def _residuals(self, writes: Sequence[Tensor], nudged: Sequence[Tensor]) -> list[Tensor]:
        pairs = zip(writes, nudged, strict=True)
        return [(write.detach() - state) / self.options.beta for write, state in pairs]
