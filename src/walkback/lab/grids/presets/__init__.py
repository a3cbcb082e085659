"""Grids with a name: what stands on record in `results/`, one function for each question.

Where a claim needs no (d), no frozen baselines are trained; where a figure settles early, fewer epochs are.
`source…` are the methods as the source study defines them, the others as they were read before it was public.
A new one is one function and one row here. Importing this imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walkback.registry import Registry

if TYPE_CHECKING:
    from walkback.lab.grids.grid import GridConfig

_RECORD, _SOURCE = "walkback.lab.grids.presets.record", "walkback.lab.grids.presets.source"
PRESETS = Registry(
    "preset",
    {
        "resmlp_d256": f"{_RECORD}:resmlp_d256",
        "source": f"{_SOURCE}:source",
        "source_no_norm": f"{_SOURCE}:source_no_norm",
        "source_no_skip": f"{_SOURCE}:source_no_skip",
        "source_penalty": f"{_SOURCE}:source_penalty",
        "source_random_targets": f"{_SOURCE}:source_random_targets",
        "source_student_net": f"{_SOURCE}:source_student_net",
        "source_ladder": f"{_SOURCE}:source_ladder",
        "source_ep": f"{_SOURCE}:source_ep",
        "source_depth": f"{_SOURCE}:source_depth",
        "source_small_cnn": f"{_SOURCE}:source_small_cnn",
        "student_net": f"{_RECORD}:student_net",
        "penalty": f"{_RECORD}:penalty",
        "no_terminal_norm": f"{_RECORD}:no_terminal_norm",
        "bridge_variants": f"{_RECORD}:bridge_variants",
        "causes": f"{_RECORD}:causes",
        "causes_no_norm": f"{_SOURCE}:causes_no_norm",
        "vit_mini": f"{_RECORD}:vit_mini",
        "false_positives": f"{_RECORD}:false_positives",
        "width": f"{_RECORD}:width",
        "small_cnn": f"{_RECORD}:small_cnn",
        "depth": f"{_RECORD}:depth",
        "fashion_mnist": f"{_RECORD}:fashion_mnist",
    },
)
"""In the order in which they decide claims, or explain what did not reproduce."""


def preset(name: str) -> tuple[GridConfig, ...]:
    """The grids of a preset, or with `all` of every one; an unknown name is refused with a suggestion."""
    return tuple(grid for each in (PRESETS if name == "all" else [name]) for grid in PRESETS.load(each)())
