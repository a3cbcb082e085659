"""Equilibrium propagation: nudge the states towards a lower loss, and learn from how they have moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.zoo.contract import Method, MethodOptions, StepResult
from walkback.lab.zoo.methods.local_step import LocalOptions, LocalPass, follow, local_pass
from walkback.lab.zoo.methods.relaxation import FirstState, Order, Relaxation
from walkback.lab.zoo.modes import evaluating, statistics_still
from walkback.lab.zoo.options import require_at_least, require_positive
from walkback.lab.zoo.precision import FROM_DIFFERENCES
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class EPOptions(LocalOptions):
    """How the nudged phase relaxes, and what is learnt from where it ends."""

    sweeps: int = 4
    """T: how often every state is moved once."""
    step: float = 0.3
    """α: how far a state moves along −∂(energy + β·loss)/∂s_l. An untrained ViT-Mini needs 0.1: at 0.3 the energy rises
    again after the second sweep, because what attention hands down is large; a ResMLP without skips and with w2_std
    0.5 needs 0.05. On the other architectures it falls. Simultaneous steps through blocks near the identity diverge
    from about 0.5 on."""
    beta: float = 1.0
    """β: how hard each sample's own loss pulls. A loss averaged over B samples pulls as β/B does here; the credit,
    which is divided by β, is then B times as large as that loss's."""
    relaxation: Order = "sweeps"
    """`sweeps`: from the last site down to the first, each seeing the one above it moved. `simultaneous`: all at once;
    the nudge goes down by one site per step, so T below L + 1 leaves the lowest sites where they were."""
    first_state: FirstState = "tied"
    """`tied`: the energy has the stem's term ½‖s_0 − stem(x)‖². Without it s_0 is moved by the first block's term alone
    (`free`), or stays at stem(x) (`clamped`: a_0 is zero, for the stem and for a block that follows it)."""
    update: Literal["energy", "displacement"] = "energy"
    """`energy`: ∂E/∂θ at the nudged states. `displacement`: the local step at the free states, by −(s_l − h_l)/β."""


class EP(Method):
    """The states relax on an energy and the loss; the network learns from the nudged states s beside the free ones h.

    Free phase: the forward pass, where the energy E(s) = ½‖s_0 − stem(x)‖² + Σ_l ½‖s_l − block_l(s_{l−1})‖² is zero.
    Nudged phase: T steps down E + β·ℓ, both summed over samples (`Relaxation`). block_l(s) is s + f_l(s) where there is
    a skip. The credit, which is also what alignment is measured on, is by `update`

    - `energy`: a_l = (block_l(s_{l−1}) − s_l)/β, which block l follows at the nudged state that it reads: ∂E/∂θ
      over β. Relaxed to convergence a_l tends to the true gradient g_l as β → 0; after few sweeps it need not. The
      penalty is on the branches at the nudged states, where the rest of what the blocks learn is taken.
    - `displacement`: a_l = −(s_l − h_l)/β, which is followed at the free states, like any other method's credit. As
      α → 0 at a fixed T > L its direction tends to g_l's at every site that moves. Relaxed to convergence it need not:
      as β → 0, a_l → Σ_k P_lk g_k over the sites k ≤ l that move, P_lk the forward Jacobian from h_k to h_l. And where
      s_0 is free nothing converges: E is zero at every forward pass, s_0 drifts on towards a lower loss, and a grows
      with αT. A displacement below fp32's resolution of h_l, 6e-8 of it, is lost.

    The head learns from its own gradient at the free h_L. The defaults are this project's reading. That of the source
    study is `relaxation=simultaneous`, `first_state=free`, `update=displacement`, `credit_site=read`, `sweeps=20` and
    `beta=0.5`. There β and T are those of synthetic data; α, whether s_0 moves and whether the credit is normalised are
    not to be found: `step=0.1`, `free` and `credit_norm=none` are chosen here, because with others EP exploded.
    """

    paper: ClassVar[str] = (
        "Scellier and Bengio, Equilibrium propagation: bridging the gap between energy-based models and "
        "backpropagation, Frontiers in Computational Neuroscience 11:24, 2017"
    )
    fp32_only: ClassVar[str] = FROM_DIFFERENCES
    gamma: ClassVar[str] = (
        "How far the nudge moves a state along the negative gradient; there is no feedback to draw, and so no null."
    )

    options_type: ClassVar[type[MethodOptions]] = EPOptions
    options: EPOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """No feedback to draw; the options are checked."""
        options = self.options
        require_at_least(self._name(), 1, sweeps=options.sweeps)
        require_positive(self._name(), step=options.step, beta=options.beta)
        if options.update == "energy":
            self._require("first_state", "tied", "without the stem's term of the energy the stem learns nothing")
            self._require("credit_site", "written", "a block's term of the energy is at the site that it writes")

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L at the nudged states, in eval mode."""
        with evaluating(self.model), torch.no_grad():
            nudged = self.relax(trace.hiddens, trace.targets)
            if self.options.update == "displacement":
                return self._over_beta(trace.hiddens, nudged)
            writes = [block(read) for block, read in zip(self.model.blocks, nudged[:-1], strict=True)]
        return self._over_beta([trace.hiddens[0], *writes], nudged)

    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """The free phase once, the nudged phase, then the local step at the states that `update` names."""
        free = local_pass(self.model, inputs, targets)
        with statistics_still(self.model):
            nudged = self.relax(free.trace.hiddens, targets)
            local = free if self.options.update == "displacement" else self._pass_at(nudged, free)
        credits = dict(enumerate(self._over_beta(local.writes, nudged)))
        follow(self.model, local, credits, self.options, credit_site=self.options.credit_site)
        return local.result

    def relax(self, free: Sequence[Tensor], targets: Tensor) -> list[Tensor]:
        """The states after the nudged phase, started at the free ones."""
        o = self.options
        return Relaxation(o.relaxation, o.first_state, o.sweeps, o.step, o.beta).relaxed(self.model, free, targets)

    def _pass_at(self, nudged: Sequence[Tensor], free: LocalPass) -> LocalPass:
        """The graph of every block at the nudged state it reads; those of stem and head at the free ones."""
        writes, branches = [free.writes[0]], []
        for block, read in zip(self.model.blocks, nudged[:-1], strict=True):
            branches.append(block.branch(read))
            writes.append(block.join(read, branches[-1]))
        return LocalPass(free.trace, writes, branches, free.logits, [None] * len(writes), self.model.output)

    def _over_beta(self, writes: Sequence[Tensor], nudged: Sequence[Tensor]) -> list[Tensor]:
        """How far each nudged state is from what was written at its site, along −a_l, over β."""
        pairs = zip(writes, nudged, strict=True)
        return [(write.detach() - state) / self.options.beta for write, state in pairs]

    def _require(self, option: str, needed: str, why: str) -> None:
        value = getattr(self.options, option)
        if value != needed:
            raise InputError(
                f"{self._name()}: {option} is {value!r} while update is 'energy'; expected {needed!r}, because {why}. "
                f"With update 'displacement' every {option} works."
            )
