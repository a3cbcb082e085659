"""Steps of training that are made again, and the change that they make, compared with that of other rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from walkback.protocol import numerics
from walkback.protocol.batches import Batch
from walkback.protocol.credit import CreditRule
from walkback.protocol.kept_state import KeptState, random_states, set_random_states
from walkback.protocol.local_gradients import Asked, Gradients, gradients_of
from walkback.protocol.losses import Loss
from walkback.protocol.parameters import parameters_of
from walkback.protocol.records import UpdateProvenance
from walkback.protocol.seen_through import Sight
from walkback.protocol.sites import Chain
from walkback.protocol.untouched import untouched

TrainStep = Callable[[nn.Module, Any], Any]
"""train_step(model, batch) makes one step of training, in place."""
OTHER_SEED = 20261118


@dataclass
class RepeatedSteps:
    """The steps that were made again so far."""

    model: nn.Module
    plain: nn.Module
    chain: Chain
    optimizers: list[Optimizer]
    also: list[nn.Module]
    loss: Loss | None
    rule: CreditRule | None
    train_step: TrainStep
    claimed_step: TrainStep | None
    cosines: dict[str, list[list[float | None]]] = field(default_factory=dict)
    """By what the change is compared with: step after step, layer after layer."""
    layers: dict[str, int] | None = None
    empty: int = 0
    """Steps that changed nothing."""
    broken: int = 0
    """Steps that made NaN or Inf."""
    moved: set[int] = field(default_factory=set)
    """The layers that a real step changed."""
    meant: set[int] = field(default_factory=set)
    """Those that the true gradient or the claimed rule changes."""
    others: dict[str, None] = field(default_factory=dict)
    """The kinds of optimizers that step the network and were not given."""

    def step(self, given: Any, batch: Batch) -> None:
        """Make one step in every way, and go on from the real one."""
        start = self._kept()
        with optimizers_seen() as used:
            met = self._met_forward(lambda: self.train_step(self.model, given))
        real, after = self._change(start), self._kept()
        start.restore()
        asked = self._asked(batch, met)
        self.layers = asked.layers
        start.restore()
        with optimizers_seen() as known:
            idle = self._through_optimizer(start, {name: torch.zeros_like(g) for name, g in asked.true.items()})
        self.others |= dict.fromkeys(_not_given(used, known, self.plain))
        found = {"true_gradient": self._through_optimizer(start, asked.true)}
        if self.claimed_step is not None:
            self.claimed_step(self.model, given)
            found["claimed"] = self._change(start)
            start.restore()
        elif asked.claimed is not None:
            found["claimed"] = self._through_optimizer(start, asked.claimed)
        _seed(OTHER_SEED + self.steps)
        self.train_step(self.model, given)
        found["repeated"] = self._change(start)
        self._compare(_less(real, idle), {name: _less(change, idle) for name, change in found.items()})
        after.restore()

    def _kept(self) -> KeptState:
        return KeptState([self.plain, *self.also], self.optimizers)

    def _met_forward(self, step: Callable[[], Any]) -> tuple[dict[nn.Module, bool], tuple[Any, ...]]:
        """Make a step; the modes and the random states in which it first called the network."""
        met: list[tuple[dict[nn.Module, bool], tuple[Any, ...]]] = []

        def look(*_: Any) -> None:
            if not met:
                met.append(({module: module.training for module in self.plain.modules()}, random_states()))

        found = {module: module.training for module in self.plain.modules()}, random_states()
        handle = self.plain.register_forward_pre_hook(look)
        try:
            step()
        finally:
            handle.remove()
        return met[0] if met else found

    def _change(self, start: KeptState) -> Gradients:
        """What has changed of every parameter since then, in fp64."""
        before = {id(tensor): value for tensor, value in start.values}
        return {name: p.detach().double() - before[id(p)].double() for name, p in parameters_of(self.plain).items()}

    def _asked(self, batch: Batch, met: tuple[dict[nn.Module, bool], tuple[Any, ...]]) -> Asked:
        """Both gradients, in the modes and with the random numbers of the real step."""
        learning = [p for p in self.plain.parameters() if p.requires_grad]

        def ask() -> Asked:
            set_random_states(met[1])
            return gradients_of(self.plain, self.chain, batch, self.loss, self.rule)

        with untouched(self.plain):
            for module, training in met[0].items():
                module.training = training
            for parameter in learning:
                parameter.requires_grad_(True)
            return Sight().run(ask)

    def _through_optimizer(self, start: KeptState, gradients: Gradients) -> Gradients:
        """The change that the optimizers make of a gradient; the negative gradient where there is none."""
        if not self.optimizers:
            return {name: -gradient.double() for name, gradient in gradients.items()}
        for name, parameter in parameters_of(self.plain).items():
            gradient = gradients.get(name)
            parameter.grad = None if gradient is None else gradient.to(parameter).clone()
        for optimizer in self.optimizers:
            optimizer.step()
        change = self._change(start)
        start.restore()
        return change

    @property
    def steps(self) -> int:
        """How many were made."""
        return len(self.cosines.get("repeated", ())) + self.empty + self.broken

    def _compare(self, real: Gradients, others: dict[str, Gradients]) -> None:
        layers = self._parameters_of_layers()
        if not all(_is_finite(real, inside) for inside in layers):
            self.broken += 1
            return
        moved = {number for number, inside in enumerate(layers) if _moves(real, inside)}
        if not moved:
            self.empty += 1
            return
        self.moved |= moved
        for name, change in others.items():
            if name != "repeated":
                self.meant |= {number for number, inside in enumerate(layers) if _moves(change, inside)}
            # Backpropagation is not held against layers that stand still: that is no sign of another rule.
            apart = None if name == "true_gradient" else 0.0
            self.cosines.setdefault(name, []).append([_cosine(real, change, inside, apart) for inside in layers])

    def _parameters_of_layers(self) -> list[list[str]]:
        assert self.layers is not None
        count = len(self.chain.taps) + 1
        return [[name for name, layer in self.layers.items() if layer == number] for number in range(count)]

    def record(self) -> UpdateProvenance:
        """The mean cosines over the steps, of the layers that have parameters which learn."""
        names = ["stem", *self.chain.blocks, "head"]
        there = [number for number, inside in enumerate(self._parameters_of_layers()) if inside]
        fields: dict[str, Any] = {"layers": tuple(names[number] for number in there)}
        for name in self._compared():
            columns = [[row[number] for row in self.cosines.get(name, ())] for number in there]
            fields[name] = tuple(_mean(column) for column in columns)
            fields[f"{name}_range"] = tuple(_range(column) for column in columns)
        hidden = tuple(number != len(self.chain.taps) for number in there)
        fields["still"] = tuple(number in self.meant and number not in self.moved for number in there)
        fields |= {"empty_steps": self.empty, "broken_steps": self.broken, "other_optimizer": ", ".join(self.others)}
        claim = "claimed_step" if self.claimed_step is not None else "credit" if self.rule is not None else "none"
        return UpdateProvenance(steps=self.steps, claim=claim, hidden=hidden, optimizer=bool(self.optimizers), **fields)

    def _compared(self) -> list[str]:
        claimed = self.claimed_step is not None or self.rule is not None
        return ["true_gradient", *(["claimed"] if claimed else []), "repeated"]


@contextmanager
def optimizers_seen() -> Iterator[list[Optimizer]]:
    """The optimizers that step while the context lasts."""
    seen: list[Optimizer] = []

    def look(optimizer: Optimizer, *_: Any) -> None:
        seen.append(optimizer)

    handle = register_optimizer_step_pre_hook(look)
    try:
        yield seen
    finally:
        handle.remove()


def _not_given(used: Sequence[Optimizer], known: Sequence[Optimizer], model: nn.Module) -> list[str]:
    """The kinds of optimizers, beside plain SGD, that stepped the network itself and were not given."""
    given = set(map(id, known))
    return [
        type(optimizer).__name__
        for optimizer in used
        if id(optimizer) not in given and not isinstance(optimizer, torch.optim.SGD) and steps_any(optimizer, model)
    ]


def steps_any(optimizer: Optimizer, *modules: nn.Module) -> bool:
    """Whether an optimizer holds a parameter of one of these."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return any(id(parameter) in held for module in modules for parameter in module.parameters())


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def _less(change: Gradients, idle: Gradients) -> Gradients:
    """A change without what the optimizer does by itself."""
    return {name: value - idle[name] if name in idle else value for name, value in change.items()}


def _cosine(left: Gradients, right: Gradients, names: Sequence[str], apart: float | None) -> float | None:
    """Over all parameters of a layer as one vector; `apart` where one side alone is zero, None where both are."""
    if not names:
        return None
    one, other = (torch.cat([_values(side, name, left).reshape(-1) for name in names]) for side in (left, right))
    if _moves(left, names) != _moves(right, names) and _is_finite(right, names):
        return apart
    cosine = float(numerics.cosines(one, other))
    return cosine if cosine - cosine == 0 else None


def _moves(side: Gradients, names: Sequence[str]) -> bool:
    return any(bool(side[name].any()) for name in names if name in side)


def _is_finite(side: Gradients, names: Sequence[str]) -> bool:
    return all(bool(side[name].isfinite().all()) for name in names if name in side)


def _values(side: Gradients, name: str, like: Gradients) -> Tensor:
    return side[name] if name in side else torch.zeros_like(like[name])


def _mean(column: Sequence[float | None]) -> float | None:
    known = [value for value in column if value is not None]
    return sum(known) / len(known) if known else None


def _range(column: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in column if value is not None]
    return (min(known), max(known)) if known else None
