"""The one loop that makes a network of the bench, and its frozen twins by the same steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.zoo import BlockModel, Method
from walkback.lab.zoo.contract import learns
from walkback.lab.zoo.datasets.drawn import Task

if TYPE_CHECKING:
    from walkback.lab.validity.conditions.base import Condition

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
EVALUATION_BATCH = 256


@dataclass
class Run:
    """A network while it is made: what steps read and write."""

    config: NetworkConfig
    task: Task
    model: BlockModel
    method: Method
    """The rule that its steps follow."""
    claimed: Method
    """The rule that its authors say they follow; the same object where they tell the truth."""
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    """What the condition draws from while it trains."""
    twin: bool = False
    """Whether its blocks are frozen for comparison."""
    step: int = 0
    steps: int = 1
    middle: Run | None = None
    """A copy from half-way through, for replays."""
    notes: dict[str, float] = field(default_factory=dict)
    """What a condition keeps for its own check."""

    @property
    def progress(self) -> float:
        """The share of steps that are done, 0 to 1."""
        return self.step / self.steps

    def copied(self) -> Run:
        """The same state with weights, feedback and moments of its own; a copy draws from the same random state."""
        parts = (self.model, self.method, self.claimed, self.optimizer)
        model, method, claimed, optimizer = copy.deepcopy(parts)
        generator = torch.Generator()
        generator.set_state(self.generator.get_state())
        return Run(
            self.config, self.task, model, method, claimed, optimizer, generator, self.twin, self.step, self.steps,
            notes=dict(self.notes),
        )  # fmt: skip


def optimizer_of(config: NetworkConfig, model: nn.Module, method: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over everything that learns, in the model and in the method."""
    if config.optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer is {config.optimizer!r}; expected one of {', '.join(OPTIMIZERS)}.")
    parameters = [p for module in (model, method) for p in module.parameters() if p.requires_grad]
    settings: dict[str, Any] = {"lr": config.rate, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        settings["momentum"] = 0.9
    make: Callable[..., torch.optim.Optimizer] = OPTIMIZERS[config.optimizer]
    return make(parameters, **settings)


def started(condition: Condition, config: NetworkConfig, task: Task, *, twin: bool = False) -> Run:
    """The network at its random start; a twin has the same weights and feedback, and blocks that do not learn."""
    torch.manual_seed(config.part_seed("weights"))
    model = condition.network(config, task.spec)
    condition.prepare(config, model)
    if twin:
        for block in model.blocks:
            block.requires_grad_(False)
    method = condition.method(config, model, torch.Generator().manual_seed(config.part_seed("feedback")))
    claimed = condition.claimed(config, model, method)
    generator = torch.Generator().manual_seed(config.part_seed("condition"))
    return Run(config, task, model, method, claimed, optimizer_of(config, model, method), generator, twin)


def train(condition: Condition, run: Run) -> Run:
    """Every step of the configuration; the run that was given, trained."""
    torch.manual_seed(run.config.part_seed("training"))
    order = torch.Generator().manual_seed(run.config.part_seed("order"))
    epochs = condition.epochs(run.config)
    batches = len(run.task.train_labels) // run.config.batch
    run.steps = epochs * batches
    run.model.train()
    for _ in range(epochs):
        for inputs, targets in epoch_batches(run, order):
            if run.step == run.steps // 2 and not run.twin:
                run.middle = run.copied()
            set_rate(run, run.config.rate * rate_share(run.config.schedule, run.progress))
            take_step(condition, run, inputs, targets)
    run.model.eval()
    return run


def epoch_batches(run: Run, order: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """The training split in a new order, in whole batches."""
    inputs, labels, size = run.task.train_inputs, run.task.train_labels, run.config.batch
    shuffled = torch.randperm(len(labels), generator=order)
    for start in range(0, len(labels) - size + 1, size):
        chosen = shuffled[start : start + size]
        yield inputs[chosen], labels[chosen]


def take_step(condition: Condition, run: Run, inputs: Tensor, targets: Tensor) -> None:
    """One step as the author's code takes it, faults included."""
    condition.before_step(run)
    condition.gradients(run, inputs, targets)
    run.optimizer.step()
    run.method.after_step()
    run.optimizer.zero_grad(set_to_none=True)
    condition.after_step(run)
    run.step += 1


def set_rate(run: Run, rate: float) -> None:
    """The learning rate of the next step."""
    for group in run.optimizer.param_groups:
        group["lr"] = rate


def rate_share(schedule: str, progress: float) -> float:
    """The learning rate at this share of the run, as a share of the largest."""
    if schedule == "constant":
        return 1.0
    if schedule == "linear":
        return 1.0 - progress
    if schedule == "cosine":
        return float(0.5 * (1 + torch.cos(torch.tensor(torch.pi * progress))))
    raise InputError(f"schedule is {schedule!r}; expected constant, linear or cosine.")


def chunks(samples: Tensor, size: int = EVALUATION_BATCH) -> list[Tensor]:
    """The samples in order, so many at a time."""
    return list(torch.split(samples, size))


@torch.no_grad()
def correct(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Whether each sample is answered rightly, in eval mode, (N,); a NaN logit is a wrong answer."""
    was = model.training
    model.eval()
    parts = []
    for x, y in zip(chunks(inputs), chunks(labels), strict=True):
        logits = model(x).float()
        parts.append((logits.argmax(dim=1) == y) & ~logits.isnan().any(dim=1))
    model.train(was)
    return torch.cat(parts)


def weights_of(module: nn.Module) -> list[Tensor]:
    """Every parameter of a module, apart from it."""
    return [parameter.detach().clone() for parameter in module.parameters()]


@torch.no_grad()
def randomised_like(model: BlockModel, trained: BlockModel, generator: torch.Generator) -> None:
    """Fill the blocks with random weights of the trained blocks' norms, and freeze them.

    A matrix is Gaussian with the trained one's Frobenius norm; a vector is the trained one with its entries shuffled.
    """
    for block, known in zip(model.blocks, trained.blocks, strict=True):
        for parameter, value in zip(block.parameters(), known.parameters(), strict=True):
            if value.ndim < 2:
                parameter.copy_(value.flatten()[torch.randperm(value.numel(), generator=generator)].view_as(value))
                continue
            drawn = torch.randn(value.shape, generator=generator)
            parameter.copy_(drawn * (value.norm() / drawn.norm()))
        block.requires_grad_(False)
    assert not any(learns(block) for block in model.blocks)
