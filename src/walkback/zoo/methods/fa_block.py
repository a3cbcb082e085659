"""Feedback alignment block by block: the exact terminal gradient travels back through one random matrix per block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from walkback.protocol.credit import Trace
from walkback.zoo.contract import MethodOptions
from walkback.zoo.methods.local_step import CreditSite, LocalMethod, LocalOptions
from walkback.zoo.methods.site_vectors import as_site, read_vectors, vector_size
from walkback.zoo.methods.terminal import terminal_gradient


@dataclass(frozen=True)
class BlockFAOptions(LocalOptions):
    """The source study gives every block the credit of the site that it reads."""

    credit_site: CreditSite = "read"


class BlockFA(LocalMethod):
    """c_L = ∂ℓ/∂h_L, c_l = c_{l+1} B_l: what block l follows, with B_l ~ N(0, 1/d) fixed, no skip and no Jacobian.

    This is the "vanilla FA" of the source study. Its last block gets the exact gradient, so its mean alignment can
    look fine while every other block follows noise. `fa` is another method: there every Linear has its matrix, and
    skips and norms keep their Jacobians.

    With `credit_site="read"` the site that block l reads has the credit c_l, the stem follows c_1, and the last site
    has c_L too; the study states the chain and its start, not the scale of B_l, which only ε of `rms` can see.
    With "written" it is the site that block l writes, and so it is where a block changes the shape of the stream.
    Of tokens, the class token's gradient travels, and every token below gets what arrives; a (B, C, H, W) site counts
    as one vector.
    """

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
        """The chain down to the first of these sites; the last site has the exact gradient."""
        shapes, exact = self.model.site_shapes, terminal_gradient(self.model, trace)
        last = len(shapes) - 1
        # Where every block reads the shape that it writes, the chain starts one site further down.
        reads = self.options.credit_site == "read" and len(set(shapes)) == 1
        vectors = {max(last - reads, 0): read_vectors(exact)}
        for site in reversed(range(min(sites), max(last - reads, 0))):
            vectors[site] = vectors[site + 1] @ self.feedback(site)
        return [exact if site == last else as_site(vectors[site], shapes[site]) for site in sites], None
