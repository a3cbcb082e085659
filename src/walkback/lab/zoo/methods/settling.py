"""How the states of predictive coding settle: gradient steps on the free energy, by the states or by their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.lab.zoo.answers import summed_loss
from walkback.lab.zoo.contract import BlockModel


class Inference(ABC):
    """What moves, one tensor per site, and what F is of it; `first` is what the stem wrote.

    Where the stem has no weights, h_0 is data: it is clamped, as the input of predictive coding is.
    """

    def __init__(self, model: BlockModel) -> None:
        self.model = model
        self.clamped = not any(True for _ in model.stem.parameters())

    @abstractmethod
    def start(self, forward: Sequence[Tensor]) -> list[Tensor]:
        """What moves at the forward pass h_0 … h_L."""

    @abstractmethod
    def states(self, moving: Sequence[Tensor], first: Tensor) -> list[Tensor]:
        """z_0 … z_L."""

    @abstractmethod
    def mismatch(self, moving: Sequence[Tensor], first: Tensor) -> Tensor:
        """Σ_l ½‖z_l − f_l(z_{l−1})‖², summed over samples."""

    def energy(self, moving: Sequence[Tensor], first: Tensor, targets: Tensor) -> Tensor:
        """F, summed over samples."""
        logits = self.model.head(self.states(moving, first)[-1])
        return self.mismatch(moving, first) + summed_loss(logits, targets, self.model.output)

    def moved(
        self, moving: Sequence[Tensor], first: Tensor, targets: Tensor, *, steps: int, step: float
    ) -> list[Tensor]:
        """What moves after so many steps along −∂F/∂, without gradient."""
        now = [tensor.detach() for tensor in moving]
        for _ in range(steps):
            pairs = list(zip(now, self.slopes(now, first, targets), strict=True))
            held = [now[0]] if self.clamped else []
            now = held + [torch.sub(tensor, slope, alpha=step) for tensor, slope in pairs[len(held) :]]
        return now

    def slopes(self, moving: Sequence[Tensor], first: Tensor, targets: Tensor) -> Sequence[Tensor]:
        """∂F/∂ of what moves, and of what is clamped."""
        with torch.enable_grad():
            reads = [tensor.detach().requires_grad_() for tensor in moving]
            return torch.autograd.grad(self.energy(reads, first, targets), reads)


class ByStates(Inference):
    """The states z_l move."""

    def start(self, forward: Sequence[Tensor]) -> list[Tensor]:
        """The forward pass itself."""
        return [state.clone() for state in forward]

    def states(self, moving: Sequence[Tensor], first: Tensor) -> list[Tensor]:
        """They are what moves."""
        return list(moving)

    def mismatch(self, moving: Sequence[Tensor], first: Tensor) -> Tensor:
        """Each state against what is predicted of it."""
        predictions = [first, *(block(state) for block, state in zip(self.model.blocks, moving[:-1], strict=True))]
        return _half_squares([state - told for state, told in zip(moving, predictions, strict=True)])


class ByErrors(Inference):
    """The errors ε_l move, and z_l = f_l(z_{l−1}) + ε_l: every state hears of the loss in the first step."""

    def start(self, forward: Sequence[Tensor]) -> list[Tensor]:
        """No errors."""
        return [torch.zeros_like(state) for state in forward]

    def states(self, moving: Sequence[Tensor], first: Tensor) -> list[Tensor]:
        """The forward pass with an error added at each site."""
        states = [first + moving[0]]
        for block, error in zip(self.model.blocks, moving[1:], strict=True):
            states.append(block(states[-1]) + error)
        return states

    def mismatch(self, moving: Sequence[Tensor], first: Tensor) -> Tensor:
        """The errors are what moves."""
        return _half_squares(moving)


def _half_squares(errors: Sequence[Tensor]) -> Tensor:
    return 0.5 * torch.stack([error.square().sum() for error in errors]).sum()
