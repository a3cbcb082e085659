"""A config made into what is trained: data, model, method and optimizer, each from its own seed."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from walkback.lab.registry import METHODS
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.mixed import Mixed, mixed_for
from walkback.lab.zoo import BlockModel, DataSpec, Method, StepResult, build_method, build_model, freeze
from walkback.lab.zoo.contract import EVERYWHERE
from walkback.lab.zoo.datasets import Dataset, load_dataset

FUSED = ("cpu", "cuda", "mps")
"""Devices on which torch has its optimizers in one kernel."""


@dataclass(frozen=True)
class Assembly:
    """A network, the rule that trains it, and the optimizer over what learns in both."""

    model: BlockModel
    method: Method
    optimizer: torch.optim.Optimizer
    trained: dict[str, nn.Parameter]
    """What the optimizer moves, by the name that a checkpoint gives it."""
    mixed: Mixed | None = None
    """How a step computes in less than fp32; None in fp32."""

    @property
    def device(self) -> torch.device:
        """Where all of it is."""
        return next(self.model.parameters()).device

    def copied_to(self, device: torch.device) -> Assembly:
        """The network and the method on another device, for measuring there; itself where it is there already."""
        if device == self.device:
            return self
        model, method = copy.deepcopy((self.model, self.method))
        return replace(self, model=model.to(device), method=method.to(device))

    def step(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """What a batch is learnt by: a step of the optimizer for each phase, whatever the method does around it."""
        results = [self._phase(inputs, targets) for _ in range(self.method.phases)]
        return results[0]

    def _phase(self, inputs: Tensor, targets: Tensor) -> StepResult:
        if self.mixed is None:
            result = self.method.accumulate(inputs, targets)
            self.optimizer.step()
        else:
            result = self.mixed.accumulate(self.method, inputs, targets)
            self.mixed.step(self.optimizer)
        self.method.after_step()
        self.optimizer.zero_grad(set_to_none=True)
        return result


def dataset_of(config: RunConfig) -> Dataset:
    """The data set of a run, fetched if it is not here; in a worker, the last one that was loaded if it is the same."""
    key = json.dumps([config.data, config.data_options], sort_keys=True)
    if key not in _LAST:
        loaded = load_dataset(config.data, **config.data_options)
        if not _KEEPING:
            return loaded
        _LAST.clear()
        _LAST[key] = loaded
    return _LAST[key]


_LAST: dict[str, Dataset] = {}
_KEEPING: list[bool] = []


def keep_dataset() -> None:
    """From now on keep the last data set: a worker trains run after run of a grid, most on the same data."""
    _KEEPING[:] = [True]


def initial_model(config: RunConfig, data: DataSpec, seed: int) -> BlockModel:
    """A network of the config's architecture with weights from that seed; no other random state moves."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(config.architecture, data, **config.architecture_options)


def assemble(config: RunConfig, data: DataSpec, device: torch.device | str = "cpu") -> Assembly:
    """The run at its start, before any step; weights and feedback are drawn on the CPU, so are the same anywhere."""
    device = torch.device(device)
    model = freeze(initial_model(config, data, derived_seed(config.seed, "weights")), config.freezing).to(device)
    generator = torch.Generator().manual_seed(derived_seed(config.seed, "feedback"))
    method = build_method(config.method, model, generator, **config.method_options)
    method.at(config.done_after(0))
    trained = {
        f"{part}.{name}": parameter
        for part, module in (("model", model), ("method", method))
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    optimizer = _optimizer(config, list(trained.values()), fused=device.type in FUSED)
    return Assembly(model, method, optimizer, trained, mixed_for(config.precision, device))


def refuse_undefined(configs: Iterable[RunConfig]) -> None:
    """Raise `InputError` for the first run whose method is not defined on its network.

    Each pair is looked at once, and no data is loaded for methods that are defined everywhere.
    """
    seen = set()
    for config in configs:
        if METHODS.load(config.method).defined_on == EVERYWHERE:
            continue
        network = [config.architecture, config.architecture_options, config.data, config.data_options, config.freezing]
        key = json.dumps([config.method, config.method_options, *network], sort_keys=True)
        if key not in seen:
            seen.add(key)
            assemble(config, dataset_of(config).spec)


def _optimizer(config: RunConfig, parameters: list[nn.Parameter], *, fused: bool) -> torch.optim.Optimizer:
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=config.momentum, weight_decay=decay, fused=fused)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, lr=rate, weight_decay=decay, fused=fused)


def rate_at(config: RunConfig, step: int, steps: int) -> float:
    """The learning rate of one step of a run of that many."""
    return config.learning_rate * _share_of_rate(config, step, steps)


def _share_of_rate(config: RunConfig, step: int, steps: int) -> float:
    if config.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * step / steps))
    if config.schedule == "cooldown":
        return min(1.0, 2 * (1 - step / steps))
    if config.schedule == "steps":
        epochs_done = step * config.epochs // steps
        return config.step_factor ** sum(milestone <= epochs_done for milestone in config.milestones)
    return 1.0
