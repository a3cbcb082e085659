"""Rules whose credit is the true gradient with something done to it: what two of the faults are made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.lab.zoo import BlockModel, Method, StepResult
from walkback.lab.zoo.methods.bp import BP
from walkback.lab.zoo.methods.error_chain import chained_credits
from walkback.lab.zoo.methods.local_step import follow, local_pass
from walkback.protocol.credit import Trace


class GradientRule(Method):
    """a_l = changed(g_l), drawn anew at every call; with nothing changed its step is backpropagation's."""

    def __init__(self, model: BlockModel, seed: int) -> None:
        super().__init__(model)
        self.seed, self.calls = seed, 0

    @abstractmethod
    def changed(self, gradients: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        """The credit of each site, from the gradients there, (B, …) each."""

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, in eval mode."""
        return self.changed([g.detach() for g in BP(self.model).credits(trace)], self._drawn())

    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """Every module follows the credit of the site that it writes; the head learns from the error."""
        local = local_pass(self.model, inputs, targets, track_reads=True)
        credits = self.changed([g.detach() for g in chained_credits(local)], self._drawn())
        follow(self.model, local, dict(enumerate(credits)), self.options, gradient=True)
        return local.result

    def _drawn(self) -> torch.Generator:
        self.calls += 1
        return torch.Generator().manual_seed(self.seed + self.calls)
