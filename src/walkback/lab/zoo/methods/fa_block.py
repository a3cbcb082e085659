"""Feedback alignment block by block: the exact terminal gradient travels back through one random matrix per block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from walkback.lab.zoo.contract import MethodOptions
from walkback.lab.zoo.methods.credit_forms import Credit
from walkback.lab.zoo.methods.local_step import CreditSite, LocalMethod, LocalOptions
from walkback.lab.zoo.methods.site_vectors import as_site, read_vectors, vector_size
from walkback.lab.zoo.methods.terminal import terminal_gradient
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class BlockFAOptions(LocalOptions):
    """The source study gives every block the credit of the site that it reads."""

    credit_site: CreditSite = "read"


class BlockFA(LocalMethod):
    """c_L = ∂ℓ/∂h_L, c_l = c_{l+1} B_l: what block l follows, and c_0 the stem; B_l ~ N(0, 1/d) fixed.

    No skip and no Jacobian takes part: this is the "vanilla FA" of the source study. Its last block gets the exact
    gradient, so its mean alignment can look fine while every other block follows noise. `fa` is another method:
    there every Linear has its matrix, and skips and norms keep their Jacobians.

    With `credit_site="read"` the site that block l reads has the credit c_l, and so the study measures it; with
    "written" it is the site that block l writes, and so it is where a block changes the shape of the stream. What
    each block follows is the same. The study states the chain and its start; that the stem has a matrix of its own was
    chosen because the published cosines of the blocks are those of this reading, and the scale of B_l, which only ε
    of `rms` can see, is ours. Of tokens, the class token's gradient travels, and every token below gets what arrives;
    where every token has an answer, each one's gradient travels by itself. A (B, C, H, W) site counts as one vector.
    """

    paper: ClassVar[str] = "the “vanilla FA” of arXiv 2606.21126, 2026"
    gamma: ClassVar[str] = (
        "How far a block's credit points along the gradient; the null draws every B_l, which the last site has none of."
    )

    options_type: ClassVar[type[MethodOptions]] = BlockFAOptions
    options: BlockFAOptions
    credit_is_gradient: ClassVar[bool] = True

    def draw(self, generator: torch.Generator | None) -> None:
        """B_l, from the size of site l + 1 to that of site l, for every block."""
        sizes = [vector_size(shape) for shape in self.model.site_shapes]
        for site, (size, after) in enumerate(pairwise(sizes)):
            self.register_buffer(f"feedback_{site}", torch.randn(after, size, generator=generator) / size**0.5)

    def redraw(self, generator: torch.Generator) -> BlockFA:
        """The same rule with other matrices."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def feedback(self, site: int) -> Tensor:
        """B_l, (d_{l+1}, d_l), by which the credit of site l follows from the next one's."""
        return self.get_buffer(f"feedback_{site}")

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], None]:
        """What the block that reads each site follows, or that writes it; the last site has the exact gradient."""
        shapes, chain = self.model.site_shapes, self._chain(trace)
        return [
            chain[-1] if site == len(shapes) - 1 else chain[site + (self.credit_site == "read")] for site in sites
        ], None

    def stem_credit(self, trace: Trace, credits: Mapping[int, Credit]) -> Tensor:
        """c_0."""
        return self._chain(trace)[0]

    @property
    def credit_site(self) -> CreditSite:
        """The option, but where a block changes the stream's shape its credit fits only the site that it writes."""
        return self.options.credit_site if len(set(self.model.site_shapes)) == 1 else "written"

    def _chain(self, trace: Trace) -> list[Tensor]:
        """c_0 … c_L, in the shapes of the sites that are written."""
        shapes, exact = self.model.site_shapes, terminal_gradient(self.model, trace)
        chain, vectors = [exact], exact if self.model.data.target_shape else read_vectors(exact)
        for site in reversed(range(len(shapes) - 1)):
            vectors = vectors @ self.feedback(site)
            chain.append(as_site(vectors, shapes[site]))
        return chain[::-1]
