"""Direct random target projection: every site is told the target by a fixed random matrix, and never the error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.lab.zoo.methods.credit_forms import FactoredCredit
from walkback.lab.zoo.methods.local_step import LocalMethod
from walkback.lab.zoo.methods.site_vectors import vector_size
from walkback.protocol.credit import Trace


class DRTP(LocalMethod):
    """a_l = y B_l with the one-hot target y and B_l ~ U(±√(6/d)), shape (classes, d), where d is the size of site l.

    So a site could learn before the pass is over. The law of B_l is that of the authors' code. Every token of a
    (B, T, d) site gets the same credit; a (B, C, H, W) site counts as one vector of C·H·W. The head learns from the
    true error.
    """

    independent_feedback = True
    paper: ClassVar[str] = (
        "Frenkel, Lefebvre and Bol, Learning without feedback: fixed random learning signals allow for feedforward "
        "training of deep neural networks, Frontiers in Neuroscience 15:629892, 2021"
    )
    gamma: ClassVar[str] = (
        "How far y B_l points along the gradient at site l, though no error is in it; the null draws B_l."
    )

    def draw(self, generator: torch.Generator | None) -> None:
        """One matrix for each site."""
        for site, shape in enumerate(self.model.site_shapes):
            size = vector_size(shape)
            drawn = 2 * torch.rand(self.model.data.classes, size, generator=generator) - 1
            self.register_buffer(f"feedback_{site}", drawn * (6 / size) ** 0.5)

    def redraw(self, generator: torch.Generator) -> DRTP:
        """The same rule with other matrices."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def feedback(self, site: int) -> Tensor:
        """B_l, (classes, d)."""
        return self.get_buffer(f"feedback_{site}")

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[FactoredCredit], None]:
        """y B_l in the shape of each site."""
        shapes, target = self.model.site_shapes, F.one_hot(trace.targets, self.model.data.classes)
        # Where a sample has several answers its loss is their mean, and so is what it is told.
        told = target.to(trace.logits.dtype) / trace.targets[0].numel()
        return [FactoredCredit(told, self.feedback(site), shapes[site]) for site in sites], None
