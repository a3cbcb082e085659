"""Methods that carry the error back from the head through every block: backpropagation and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from walkback.lab.zoo.answers import mean_loss
from walkback.lab.zoo.contract import Method, StepResult
from walkback.lab.zoo.methods.local_step import LocalPass, follow, local_pass
from walkback.lab.zoo.methods.penalty import branch_penalty
from walkback.lab.zoo.modes import evaluating
from walkback.lab.zoo.precision import backward, scales_gradients
from walkback.protocol.credit import Trace


class ErrorChain(Method):
    """a_L = J_headᵀ e, a_{l−1} = J_lᵀ a_l, with Jacobians that a subclass may replace in part.

    The penalty is a term of the loss, so its gradient travels back by the same road.
    """

    def backward_rule(self) -> AbstractContextManager[object]:
        """What is in force while the graph is built; here nothing, so the Jacobians are the true ones."""
        return nullcontext()

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, by running the blocks again from h_0, in eval mode."""
        with torch.enable_grad(), evaluating(self.model), self.backward_rule():
            sites = [trace.hiddens[0].detach().requires_grad_()]
            for block in self.model.blocks:
                sites.append(block(sites[-1]))
            logits = self.model.head(sites[-1])
        return torch.autograd.grad(logits, sites, trace.error.to(logits.dtype))

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """One forward pass and one backward pass through the whole network."""
        if self.options.credit_norm != "none":
            return self._accumulate_site_by_site(inputs, targets)
        with self.backward_rule():
            if self.options.penalty:
                logits, penalty = self._penalised_forward(inputs)
            else:
                logits, penalty = self.model(inputs), None
        loss = mean_loss(logits, targets, self.model.output)
        backward([loss if penalty is None else loss + penalty], [None])
        return StepResult(loss.detach(), logits.detach())

    def _penalised_forward(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        hidden, branches = self.model.stem(inputs), []
        for block in self.model.blocks:
            branches.append(block.branch(hidden))
            hidden = block.join(hidden, branches[-1])
        return self.model.head(hidden), branch_penalty(self.model.blocks, branches, self.options.penalty)

    def _accumulate_site_by_site(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """The error travels as it is; what each block follows is scaled. The penalty stays in its block."""
        with self.backward_rule():
            local = local_pass(self.model, inputs, targets, track_reads=True)
        follow(self.model, local, dict(enumerate(chained_credits(local))), self.options, gradient=True)
        return local.result


def chained_credits(local: LocalPass) -> list[Tensor]:
    """a_0 … a_L of a pass that tracks its reads, each block's graph giving the credit below it."""
    reads = local.trace.hiddens
    credits = [torch.autograd.grad(local.logits, reads[-1], local.trace.error, retain_graph=True)[0]]
    for write, read in zip(reversed(local.writes[1:]), reversed(reads[:-1]), strict=True):
        credits.append(torch.autograd.grad(write, read, credits[-1], retain_graph=True)[0])
    return credits[::-1]
