"""A stem whose output grows during training, until nothing that blocks add counts beside it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.exploding_block import grow
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.validity.training import Run
from walkback.lab.zoo.contract import BlockModel, DataSpec


class GrownStem(nn.Module):
    """c · stem(x), with a factor c that is 1 at the start."""

    factor: Tensor

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("factor", torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        """h_0."""
        return torch.mul(self.factor, self.inner(inputs))


class ExplodingStem(Condition):
    """No block grows, so (a) has nothing to say."""

    name = "exploding_stem"
    family = "scale"
    title = "The stem's output explodes; no block multiplies anything."
    made = "The stem's output is multiplied by a factor that grows from 1 to the dial during training; BP trains."
    dial_is = "growth of ‖h_0‖ at the end"
    dials = (1e6, 1e4, 1e3)
    found_by = ("growth_from_init",)
    architectures = ("resmlp", "small_cnn", "small_resnet", "vit_mini")

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """Its stem is wrapped."""
        model = network_of(config, data)
        return BlockModel(GrownStem(model.stem), list(model.blocks), model.head, data)

    def before_step(self, run: Run) -> None:
        """A little more at every step."""
        grow(run.model, run.progress, run.config.dial)

    def finished(self, run: Run) -> None:
        """All of it at the end."""
        grow(run.model, 1.0, run.config.dial)

    def check(self, made: Made) -> Evidence:
        """The stem writes the dial times what its layers say."""
        stem = made.run.model.stem
        assert isinstance(stem, GrownStem)
        with torch.no_grad():
            inputs = made.run.task.test_inputs[:64]
            ratio = float(stem(inputs).norm() / stem.inner(inputs).norm())
        close = abs(ratio / made.run.config.dial - 1) < 1e-3
        return Evidence(close, {"factor": ratio}, f"the stem writes {ratio:.4g} times what its layers say")


CONDITION = ExplodingStem()
