"""Blocks that never learnt, in a network that is reported as trained."""

from __future__ import annotations

from walkback.lab.validity.conditions.base import Condition, Evidence, Made, movements
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.zoo import BlockModel


class FrozenBlocks(Condition):
    """The first blocks keep their random weights; nobody is told."""

    name = "frozen_blocks"
    family = "blocks"
    title = "Blocks that never learnt, reported as trained."
    made = "The first blocks are left out of the optimizer; stem, head and the other blocks learn by BP."
    dial_is = "share of the blocks that are frozen"
    dials = (1.0, 0.75, 0.5)
    found_by = ("movement", "depth_gain")
    unseen = "Depth gain sees it where all blocks are frozen; where half of them learn, movement alone."

    def prepare(self, config: NetworkConfig, model: BlockModel) -> None:
        """Freeze them."""
        for block in list(model.blocks)[: frozen_count(config.dial, len(model.blocks))]:
            block.requires_grad_(False)

    def check(self, made: Made) -> Evidence:
        """The frozen blocks have not moved by a single bit."""
        moved = movements(made)
        count = frozen_count(made.run.config.dial, len(moved))
        words = f"the first {count} of {len(moved)} blocks moved by {max(moved[:count]):.2g}"
        return Evidence(not any(moved[:count]), {"frozen": count, "movement": max(moved[:count])}, words)


def frozen_count(share: float, blocks: int) -> int:
    """How many of the blocks a share is, one at least."""
    return max(1, round(share * blocks))


CONDITION = FrozenBlocks()
