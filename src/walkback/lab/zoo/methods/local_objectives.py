"""The step of methods in which every module follows a loss of its own: nothing of the loss at the head reaches it."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from walkback.lab.zoo.contract import CreditlessMethod, StepResult
from walkback.lab.zoo.methods.local_step import local_pass
from walkback.lab.zoo.methods.penalty import branch_penalty
from walkback.lab.zoo.precision import backward, scales_gradients


class LocalObjectives(CreditlessMethod):
    """Stem and blocks each follow the gradient of their own loss, the head that of the cross-entropy.

    Each reads a detached state, so no gradient crosses a site.
    """

    @abstractmethod
    def local_loss(self, site: int, write: Tensor, targets: Tensor) -> Tensor:
        """The loss of what a module wrote at its site, (B, …), as a mean over the batch."""

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """One forward pass, one backward pass, one graph per module."""
        local = local_pass(self.model, inputs, targets)
        losses = [self.local_loss(index, local.writes[index], targets) for index in local.learning]
        penalty = branch_penalty(self.model.blocks, local.branches, self.options.penalty)
        roots = [*losses, *([] if penalty is None else [penalty])]
        backward([local.logits, *roots], [local.trace.error / len(targets), *[None] * len(roots)])
        return local.result
