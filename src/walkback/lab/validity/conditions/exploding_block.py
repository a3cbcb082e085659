"""One block that multiplies the stream, more and more as training goes on."""

from __future__ import annotations

import torch
from torch import Tensor

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.validity.training import Run
from walkback.lab.zoo.contract import Block, BlockModel, DataSpec


class Grown(Block):
    """c · block(h), with a factor c that is 1 at the start."""

    factor: Tensor

    def __init__(self, inner: Block) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("factor", torch.ones(()))

    def branch(self, hidden: Tensor) -> Tensor:
        """The inner block's."""
        return self.inner.branch(hidden)

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """c times what the inner block writes."""
        return self.factor * self.inner.join(hidden, branch)


def grow(model: BlockModel, progress: float, factor: float) -> None:
    """Set every factor to factor^progress: from 1 at the start to the dial at the end."""
    for module in model.modules():
        if hasattr(module, "factor") and isinstance(module.factor, Tensor):
            module.factor.fill_(factor**progress)


class ExplodingBlock(Condition):
    """The scale runs away in one place."""

    name = "exploding_block"
    family = "scale"
    title = "One block multiplies the stream, so that what later blocks add is lost in it."
    made = "A block's output is multiplied by a factor that grows from 1 to the dial during training; BP trains."
    dial_is = "growth of that block at the end"
    dials = (1e4, 1e3, 100.0)
    found_by = ("block_growth", "growth_from_init", "residual_growth")
    architectures = ("resmlp", "small_cnn", "small_resnet", "vit_mini")

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """Its first block is wrapped."""
        model = network_of(config, data)
        first, *others = model.blocks
        return BlockModel(model.stem, [Grown(first), *others], model.head, data)

    def before_step(self, run: Run) -> None:
        """A little more at every step."""
        grow(run.model, run.progress, run.config.dial)

    def finished(self, run: Run) -> None:
        """All of it at the end."""
        grow(run.model, 1.0, run.config.dial)

    def check(self, made: Made) -> Evidence:
        """The block writes the dial times what its layers say."""
        block = made.run.model.blocks[0]
        assert isinstance(block, Grown)
        with torch.no_grad():
            hidden = made.run.model.stem(made.run.task.test_inputs[:64])
            ratio = float(block(hidden).norm() / block.inner(hidden).norm())
        close = abs(ratio / made.run.config.dial - 1) < 1e-3
        return Evidence(close, {"factor": ratio}, f"the first block writes {ratio:.4g} times what its layers say")


CONDITION = ExplodingBlock()
