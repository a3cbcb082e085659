"""Blocks that write nothing into the stream, and cannot come back to life."""

from __future__ import annotations

import torch
from torch import Tensor

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.frozen_blocks import frozen_count
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.zoo.contract import Block, BlockModel, DataSpec


class Dead(Block):
    """h + ReLU(f(h) − c) with a c that no f reaches: the branch is 0 and so is every gradient in it.

    The weights inside still change by weight decay and by noise, as those of dead units do.
    """

    def __init__(self, inner: Block) -> None:
        super().__init__()
        self.inner = inner

    def branch(self, hidden: Tensor) -> Tensor:
        """Zeros that depend on the inner block's parameters in form alone."""
        return torch.relu(torch.tanh(self.inner.branch(hidden)) - 2.0)


class DeadBlocks(Condition):
    """Some blocks are behind a ReLU that never opens."""

    name = "dead_blocks"
    family = "blocks"
    title = "Blocks that write nothing: their units are dead."
    made = "The branches of the last blocks go through a ReLU that never opens; BP trains everything else."
    dial_is = "share of the blocks that are dead"
    dials = (1.0, 0.75, 0.5)
    found_by = ("idle_block", "movement", "depth_gain", "linear_readouts")
    unseen = "Where half of the blocks live and gain, only what is asked block by block can tell."
    architectures = ("resmlp", "student_net", "small_resnet", "vit_mini")

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """The last blocks are dead."""
        model = network_of(config, data)
        blocks = list(model.blocks)
        alive = len(blocks) - frozen_count(config.dial, len(blocks))
        return BlockModel(model.stem, [*blocks[:alive], *map(Dead, blocks[alive:])], model.head, data)

    @torch.no_grad()
    def check(self, made: Made) -> Evidence:
        """Every dead block hands its input on as it is."""
        hidden = made.run.model.stem(made.run.task.test_inputs[:64])
        change = 0.0
        dead = 0
        for block in made.run.model.blocks:
            after = block(hidden)
            if isinstance(block, Dead):
                change = max(change, float((after - hidden).abs().max()))
                dead += 1
            hidden = after
        words = f"{dead} dead blocks change their input by {change:.2g} at the most"
        return Evidence(dead > 0 and change == 0.0, {"dead": dead, "change": change}, words)


CONDITION = DeadBlocks()
