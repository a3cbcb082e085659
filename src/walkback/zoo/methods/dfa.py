"""Direct feedback alignment: the output error reaches every site by its own fixed random matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from walkback.protocol.credit import Trace
from walkback.zoo.methods.credit_forms import FactoredCredit
from walkback.zoo.methods.local_step import LocalMethod
from walkback.zoo.methods.site_vectors import vector_size


class DFA(LocalMethod):
    """a_l = e B_l with B_l ~ N(0, 1/d), shape (classes, d), where d is the size of site l.

    Every token of a (B, T, d) site gets the same credit; a (B, C, H, W) site counts as one vector of C·H·W.
    Without `credit_norm` this is the textbook rule.
    """

    independent_feedback: ClassVar[bool] = True

    def draw(self, generator: torch.Generator | None) -> None:
        """One matrix for each site."""
        for site, shape in enumerate(self.model.site_shapes):
            size = vector_size(shape)
            feedback = torch.randn(self.model.data.classes, size, generator=generator) / size**0.5
            self.register_buffer(f"feedback_{site}", feedback)

    def redraw(self, generator: torch.Generator) -> DFA:
        """The same rule with other matrices."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def feedback(self, site: int) -> Tensor:
        """B_l, (classes, d)."""
        matrix: Tensor = getattr(self, f"feedback_{site}")  # `get_buffer` takes the name apart at every step
        return matrix

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[FactoredCredit], None]:
        """e B_l in the shape of each site."""
        shapes, error = self.model.site_shapes, trace.error.to(trace.logits.dtype)
        return [FactoredCredit(error, self.feedback(site), shapes[site]) for site in sites], None
