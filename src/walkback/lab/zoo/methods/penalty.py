"""The penalty on what a block adds to the stream, for any method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from walkback.lab.zoo.contract import learns


def branch_penalty(blocks: Iterable[nn.Module], branches: Sequence[Tensor], strength: float) -> Tensor | None:
    """λ · Σ_l mean over samples of ‖f_l(h_{l−1})‖², over the blocks that learn; None where there is no term.

    All entries of a sample's branch count, over tokens and channels too.
    """
    if not strength:  # first, because this runs at every step and asking a block whether it learns walks through it
        return None
    penalised = [branch for block, branch in zip(blocks, branches, strict=True) if learns(block)]
    if not penalised:
        return None
    total = sum((branch.square().sum() for branch in penalised[1:]), penalised[0].square().sum())
    return total * (strength / len(penalised[0]))
