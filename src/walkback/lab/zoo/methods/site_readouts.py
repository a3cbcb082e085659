"""What a readout of a site reads: all its values, averaged over neighbouring positions where they are too many.

A site of tokens (T, d) has T positions of d channels, a map (C, H, W) has H · W of C, a vector is one position. The
sides are halved in turn until no more than `MOST_READ` values are left, as the code of Nøkland and Eidnes has it
(`dim_in_decoder` of github.com/anokland/local-loss).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.zoo.contract import BlockModel
from walkback.lab.zoo.methods.site_vectors import has_tokens
from walkback.lab.zoo.modes import seeded_by

MOST_READ = 4096


def positions_first(hidden: Tensor) -> Tensor:
    """(B, C, …) with the channels in front of the positions; tokens come with their channels last."""
    return hidden.transpose(1, 2) if hidden.ndim == 3 else hidden


def _channels_and_sides(shape: tuple[int, ...]) -> tuple[int, list[int]]:
    return (shape[1], [shape[0]]) if has_tokens(shape) else (shape[0], list(shape[1:]))


def read_sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sides of what is left of a site's positions; of a vector none."""
    channels, sides = _channels_and_sides(shape)
    turn = 0
    while channels * prod(sides) > MOST_READ and max(sides, default=1) > 1:
        sides[turn] = (sides[turn] + 1) // 2
        turn = (turn + 1) % len(sides)
    return tuple(sides)


def read_size(shape: tuple[int, ...]) -> int:
    """How many values a readout of this site sees."""
    return _channels_and_sides(shape)[0] * prod(read_sides(shape))


def read_values(hidden: Tensor) -> Tensor:
    """What a readout sees of each sample, (B, …) → (B, D)."""
    sides, values = read_sides(tuple(hidden.shape[1:])), positions_first(hidden)
    if values.shape[2:] != torch.Size(sides):
        pool = F.adaptive_avg_pool1d if len(sides) == 1 else F.adaptive_avg_pool2d
        values = pool(values, sides)  # type: ignore[arg-type]
    return values.flatten(1)


class SiteReadout(nn.Linear):
    """A linear readout of a whole site to the classes."""

    def forward(self, hidden: Tensor) -> Tensor:
        """The scores of the classes, (B, …) → (B, classes)."""
        return super().forward(read_values(hidden))


def written_sites(model: BlockModel) -> range:
    """The sites that weights write: all, but for h_0 where the stem has none."""
    return range(0 if any(True for _ in model.stem.parameters()) else 1, len(model.site_shapes))


def per_site(made: Mapping[int, nn.Module]) -> nn.ModuleDict:
    """Modules by the site that they belong to."""
    return nn.ModuleDict({str(site): module for site, module in made.items()})


def readouts(
    model: BlockModel, generator: torch.Generator | None, *, sites: Sequence[int], bias: bool = True
) -> nn.ModuleDict:
    """A readout for each of these sites, as torch initialises it; of each token, where each has an answer."""
    shapes, classes, of_tokens = model.site_shapes, model.data.classes, bool(model.data.target_shape)
    with seeded_by(generator):
        if of_tokens:
            return per_site({site: nn.Linear(shapes[site][-1], classes, bias=bias) for site in sites})
        return per_site({site: SiteReadout(read_size(shapes[site]), classes, bias=bias) for site in sites})
