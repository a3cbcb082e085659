"""What a condition is: a way to build a network with a known fault, or with none."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.validity.tasks import maker_of, task_of
from walkback.lab.validity.training import Run, correct, weights_of
from walkback.lab.zoo import BlockModel, Method, build_method
from walkback.lab.zoo.contract import DataSpec
from walkback.lab.zoo.datasets.drawn import Task

Family = Literal["healthy", "blocks", "credit", "data", "scale", "reference", "accurate but broken", "reporting"]


class Evidence(NamedTuple):
    """Whether a network is what its condition says, by a measure that no diagnostic uses, and that measure."""

    holds: bool
    values: dict[str, float]
    words: str


class Made(NamedTuple):
    """A network that is finished, with what it is compared with."""

    run: Run
    start: BlockModel
    """The same network at its random start."""
    accuracy: float
    """On the test split, counted here."""
    answers: Tensor
    """Which test samples it answers rightly, (N,)."""

    def at_start(self) -> Made:
        """The same with the network at its random start in the place of the finished one."""
        return self._replace(run=replace(self.run, model=self.start))


class Condition:
    """A healthy network; each fault overrides the step that goes wrong.

    The steps are in the order in which they are asked for. Whatever a fault overrides, its frozen twins go through the
    same steps: they are what the author of such a network would have compared it with.
    """

    name: ClassVar[str]
    family: ClassVar[Family]
    title: ClassVar[str]
    """What is wrong with the network, in one sentence."""
    made: ClassVar[str]
    """How it is made so."""
    dial_is: ClassVar[str] = ""
    """What the dial is, with its unit."""
    dials: ClassVar[tuple[float, ...]] = (0.0,)
    """From the strongest to the weakest."""
    found_by: ClassVar[tuple[str, ...]] = ()
    """The diagnostics that are meant to find it; empty where none can."""
    unseen: ClassVar[str] = ""
    """Why none can find it, or some settings of the dial."""
    architectures: ClassVar[tuple[str, ...]] = ("resmlp", "plain_mlp", "small_cnn", "vit_mini")
    methods: ClassVar[tuple[str, ...]] = ("bp",)
    tasks: ClassVar[tuple[str, ...]] = ("product", "pairs", "fashion")

    def task(self, config: NetworkConfig) -> Task:
        """The data, as the author's code holds it."""
        return task_of(config)

    def candidates(self, config: NetworkConfig) -> list[NetworkConfig]:
        """The networks of which the best on the test split is handed in; here the one."""
        return [config]

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """The network at its random start."""
        return network_of(config, data)

    def prepare(self, config: NetworkConfig, model: BlockModel) -> None:
        """What is done to it before it is trained; here nothing."""
        return

    def method(self, config: NetworkConfig, model: BlockModel, generator: torch.Generator) -> Method:
        """The rule that its steps follow."""
        return build_method(config.method, model, generator)

    def claimed(self, config: NetworkConfig, model: BlockModel, method: Method) -> Method:
        """The rule that its authors say they follow."""
        return method

    def claimed_name(self, config: NetworkConfig) -> str:
        """What they call it."""
        return config.method

    def epochs(self, config: NetworkConfig) -> int:
        """How long it is trained."""
        return config.epochs

    def before_step(self, run: Run) -> None:
        """What happens before each step; here nothing."""
        return

    def gradients(self, run: Run, inputs: Tensor, targets: Tensor) -> None:
        """Fill `.grad` of all that learns."""
        run.method.accumulate(inputs, targets)

    def after_step(self, run: Run) -> None:
        """What happens after each step; here nothing."""
        return

    def finished(self, run: Run) -> None:
        """What is done to the network once it is trained; here nothing."""
        return

    def headline(self, made: Made) -> float:
        """The accuracy that its authors report."""
        return made.accuracy

    def check(self, made: Made) -> Evidence:
        """Whether the network is what the condition says."""
        raise NotImplementedError

    def as_measured(self, made: Made) -> BlockModel:
        """The network as its authors hand it in."""
        return made.run.model


def learnt(made: Made) -> tuple[bool, float]:
    """Whether the network went as far from chance as one that has learnt its task, and the share of the way."""
    chance = made.run.task.chance
    share = (made.accuracy - chance) / (1 - chance)
    return share >= maker_of(made.run.config.task).reach, share


@torch.no_grad()
def movements(made: Made) -> list[float]:
    """‖W − W_0‖ / ‖W_0‖ of each block, over all its parameters as one vector."""
    found = []
    for block, before in zip(made.run.model.blocks, made.start.blocks, strict=True):
        old, new = (torch.cat([w.double().flatten() for w in weights_of(b)]) for b in (before, block))
        found.append(float((new - old).norm() / old.norm()))
    return found


def answers_on_training(made: Made) -> float:
    """The accuracy on the training samples as they were presented."""
    task = made.run.task
    return float(correct(made.run.model, task.train_inputs, task.train_labels).double().mean())
