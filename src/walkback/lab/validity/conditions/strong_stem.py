"""Accurate but broken: a stem that does the task alone, in front of blocks that follow noise."""

from __future__ import annotations

import torch
from torch import nn

from walkback.lab.validity.conditions.base import Condition, Evidence, Made, learnt, movements
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.validity.training import Run
from walkback.lab.zoo.contract import BlockModel, DataSpec

HIDDEN = 128


class StrongStem(Condition):
    """The accuracy is right, and the blocks have no part in it."""

    name = "strong_stem"
    family = "accurate but broken"
    title = "A strong stem does the task; the blocks behind it are passive or harmful."
    made = (
        "The stem is a perceptron of two hidden layers in front of the usual one. Stem and head learn by BP through "
        "the blocks; the blocks themselves are moved by noise of the dial's size and never by credit."
    )
    dial_is = "size of the noise in the blocks at the end, relative to their weights"
    dials = (0.1, 0.5, 1.5)
    found_by = ("update_provenance", "linear_readouts", "depth_gain")
    architectures = ("resmlp", "student_net", "small_resnet", "vit_mini")
    tasks = ("product", "pairs")

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """The usual network behind a perceptron that keeps the shape of the data."""
        model = network_of(config, data)
        layers = nn.Sequential(
            nn.Flatten(), nn.Linear(data.features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, data.features), nn.Unflatten(1, data.input_shape),
        )  # fmt: skip
        return BlockModel(nn.Sequential(layers, model.stem), list(model.blocks), model.head, data)

    @torch.no_grad()
    def before_step(self, run: Run) -> None:
        """Push each block's weights a little, so that √steps of it come to the dial."""
        if run.twin:
            return
        for name, parameter in run.model.blocks.named_parameters():
            if parameter.ndim > 1:
                start = run.notes.setdefault(name, float(parameter.norm()))
                noise = torch.randn(parameter.shape, generator=run.generator)
                parameter.add_(noise * (run.config.dial * start / (run.steps**0.5 * noise.norm())))

    def gradients(self, run: Run, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """The blocks' own gradients are thrown away."""
        run.method.accumulate(inputs, targets)
        for parameter in run.model.blocks.parameters():
            parameter.grad = None

    def check(self, made: Made) -> Evidence:
        """It has learnt; its blocks moved as far as the noise says, and not by credit."""
        reached, share = learnt(made)
        moved = movements(made)
        words = f"it went {share:.2f} of the way from chance to no error; noise moved its blocks by {max(moved):.2g}"
        return Evidence(reached and max(moved) > 0.2 * made.run.config.dial, {"share_of_the_way": share}, words)


CONDITION = StrongStem()
