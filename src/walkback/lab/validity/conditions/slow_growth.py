"""Every block multiplies the stream by less than any threshold on one block."""

from __future__ import annotations

import torch

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.exploding_block import Grown, grow
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.validity.training import Run
from walkback.lab.zoo.contract import BlockModel, DataSpec


class SlowGrowth(Condition):
    """The product over the blocks explodes, and no factor does."""

    name = "slow_growth"
    family = "scale"
    title = "Every block multiplies the stream by a factor that passes for itself."
    made = "Every block's output is multiplied by a factor that grows from 1 to the dial during training; BP trains."
    dial_is = "growth of each block at the end"
    dials = (40.0, 15.0, 6.0)
    found_by = ("growth_from_init", "block_growth")
    architectures = ("resmlp", "student_net", "small_resnet", "vit_mini")

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """All of its blocks are wrapped."""
        model = network_of(config, data)
        return BlockModel(model.stem, [Grown(block) for block in model.blocks], model.head, data)

    def before_step(self, run: Run) -> None:
        """A little more at every step."""
        grow(run.model, run.progress, run.config.dial)

    def finished(self, run: Run) -> None:
        """All of it at the end."""
        grow(run.model, 1.0, run.config.dial)

    def check(self, made: Made) -> Evidence:
        """Every block writes the dial times what its layers say."""
        ratios = []
        with torch.no_grad():
            hidden = made.run.model.stem(made.run.task.test_inputs[:64])
            for block in made.run.model.blocks:
                assert isinstance(block, Grown)
                after = block(hidden)
                ratios.append(float(after.norm() / block.inner(hidden).norm()))
                hidden = after
        close = all(abs(ratio / made.run.config.dial - 1) < 1e-3 for ratio in ratios)
        return Evidence(
            close, {"factor": max(ratios)}, f"each block writes {max(ratios):.3g} times what its layers say"
        )


CONDITION = SlowGrowth()
