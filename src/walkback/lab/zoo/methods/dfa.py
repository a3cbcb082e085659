"""Direct feedback alignment: the output error reaches every site by its own fixed random matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.credit_forms import FactoredCredit
from walkback.lab.zoo.methods.local_step import LocalMethod, LocalOptions
from walkback.lab.zoo.methods.site_vectors import vector_size
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class DFAOptions(LocalOptions):
    """How the feedback is drawn."""

    feedback_variance: Literal["site", "classes"] = "site"
    """B_l ~ N(0, 1/d) by the size d of its site, or N(0, 1/classes), as the source study's credit norms imply."""
    feedback_of: Literal["site", "block"] = "site"
    """A matrix for each site, or one for each block, for the site that the block reads; the last site then has that
    of the last block, as in the source study."""


class DFA(LocalMethod):
    """a_l = e B_l with B_l ~ N(0, 1/d), shape (classes, d), where d is the size of site l.

    Every token of a (B, T, d) site gets the same credit, unless every token has an answer: then each gets that of its
    own error, and none of those that come after it. A (B, C, H, W) site counts as one vector of C·H·W.
    Without `credit_norm` this is the textbook rule.
    """

    paper: ClassVar[str] = (
        "Nøkland, Direct feedback alignment provides learning in deep neural networks, NeurIPS 29, 2016"
    )
    gamma: ClassVar[str] = "How far e B_l points along the gradient at site l; the null draws every B_l."

    options_type: ClassVar[type[MethodOptions]] = DFAOptions
    options: DFAOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """One matrix for each site, or for each block."""
        sizes = [vector_size(shape) for shape in self.model.site_shapes]
        classes = self.model.data.classes
        shared = self.options.feedback_of == "block" and len(sizes) > 1 and sizes[-1] == sizes[-2]
        for site, size in enumerate(sizes[:-1] if shared else sizes):
            scale = size if self.options.feedback_variance == "site" else classes
            feedback = torch.randn(classes, size, generator=generator) / scale**0.5
            self.register_buffer(f"feedback_{site}", feedback)
        self.independent_feedback = not shared
        self.matrices = len(sizes) - shared

    def redraw(self, generator: torch.Generator) -> DFA:
        """The same rule with other matrices."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def feedback(self, site: int) -> Tensor:
        """B_l, (classes, d)."""
        # `get_buffer` takes the name apart at every step
        matrix: Tensor = getattr(self, f"feedback_{min(site, self.matrices - 1)}")
        return matrix

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[FactoredCredit], None]:
        """e B_l in the shape of each site."""
        shapes, error = self.model.site_shapes, trace.error.to(trace.logits.dtype)
        return [FactoredCredit(error, self.feedback(site), shapes[site]) for site in sites], None
