"""The nudged phase of equilibrium propagation: states that move down an energy and a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from walkback.lab.zoo.answers import summed_loss
from walkback.lab.zoo.contract import BlockModel

Order = Literal["sweeps", "simultaneous"]
FirstState = Literal["tied", "free", "clamped"]


@dataclass(frozen=True)
class Relaxation:
    """T steps of the states s_0 … s_L along −∂F/∂s, F(s) = E(s) + β·ℓ(head(s_L)), both summed over samples.

    E(s) = Σ_l ½‖s_l − block_l(s_{l−1})‖² over the blocks, l = 1 … L, and ½‖s_0 − h_0‖² where s_0 is tied to the
    h_0 that the stem wrote. At the forward pass E and its slope are zero, so only ℓ sets the states in motion.
    """

    order: Order
    first_state: FirstState
    steps: int
    step: float
    beta: float

    def relaxed(self, model: BlockModel, free: Sequence[Tensor], targets: Tensor) -> list[Tensor]:
        """The states after all steps, started at h_0 … h_L of the forward pass; each (B, …), without gradient."""
        states = [state.detach() for state in free]
        move = self._swept if self.order == "sweeps" else self._moved_at_once
        for done in range(self.steps):
            floor = self._lowest_moved(done, len(states) - 1)
            # Below the floor nothing has moved, so what is written there is what the forward pass wrote.
            drawn_to = states[floor] if self.first_state == "free" else free[floor].detach()
            states[floor:] = move(_chain(model, floor, states, targets), drawn_to)
        return states

    def _lowest_moved(self, done: int, last: int) -> int:
        """The first site that a step moves: at once with all others, each step takes the nudge down by one site."""
        lowest = 1 if self.first_state == "clamped" else 0
        return lowest if self.order == "sweeps" else max(lowest, last - done)

    def _swept(self, chain: _Chain, drawn_to: Tensor) -> list[Tensor]:
        """Each state moved once, the last one first; it sees the one above it moved."""
        predicted = [drawn_to, *(write.detach() for write in chain.writes)]
        moved = [state.detach() for state in chain.states]
        (from_above,) = torch.autograd.grad(chain.loss, chain.states[-1], self._pull(chain))
        for site in reversed(range(len(moved))):
            moved[site] = moved[site] - self.step * (moved[site] - predicted[site] + from_above)
            if site > 0:
                mismatch = predicted[site] - moved[site]
                (from_above,) = torch.autograd.grad(chain.writes[site - 1], chain.states[site - 1], mismatch)
        return moved

    def _moved_at_once(self, chain: _Chain, drawn_to: Tensor) -> list[Tensor]:
        """All states moved once, each by its slope where all of them are now."""
        states = [state.detach() for state in chain.states]
        mismatches = [p.detach() - state for p, state in zip([drawn_to, *chain.writes], states, strict=True)]
        # The graphs of the blocks and of the head share nothing, so one call takes the gradients of all.
        roots, pulls = [*chain.writes, chain.loss], [*mismatches[1:], self._pull(chain)]
        from_above = torch.autograd.grad(roots, chain.states, pulls)
        slopes = [above - mismatch for above, mismatch in zip(from_above, mismatches, strict=True)]
        return [torch.sub(state, slope, alpha=self.step) for state, slope in zip(states, slopes, strict=True)]

    def _pull(self, chain: _Chain) -> Tensor:
        return torch.full_like(chain.loss, self.beta)


class _Chain(NamedTuple):
    """The states from one site to the last, and what reads each of them, every reader on a graph of its own."""

    states: Sequence[Tensor]
    writes: Sequence[Tensor]
    """What each block above the first of these sites makes of the state that it reads."""
    loss: Tensor
    """ℓ(head(s_L)), summed over samples."""


def _chain(model: BlockModel, floor: int, states: Sequence[Tensor], targets: Tensor) -> _Chain:
    with torch.enable_grad():
        reads = [state.detach().requires_grad_() for state in states[floor:]]
        writes = [block(read) for block, read in zip(list(model.blocks)[floor:], reads[:-1], strict=True)]
        loss = summed_loss(model.head(reads[-1]), targets, model.output)
    return _Chain(reads, writes, loss)
