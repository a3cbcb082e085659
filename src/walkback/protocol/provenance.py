"""`walkback.provenance`: does the update that a network gets come from the rule that is claimed for it?

A few steps of the user's own training are made again from a checkpoint. The change of the weights, layer by layer, is
held against what the claimed rule would have changed, and against what backpropagation would have: each through the
same optimizer, from the same state. What the optimizer does without any gradient, by its momentum or weight decay, is
taken off all of them. One more time each step is made with other random numbers: feedback that is fixed changes
nothing by that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from walkback.errors import InputError
from walkback.protocol import numerics
from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batch_sizes import on_few
from walkback.protocol.batches import Batch, read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.kept_state import KeptState, random_states, set_random_states
from walkback.protocol.local_gradients import Asked, Gradients, gradients_of
from walkback.protocol.losses import Loss
from walkback.protocol.outputs import Logits
from walkback.protocol.own_loss import with_loss
from walkback.protocol.parameters import parameters_of
from walkback.protocol.records import UpdateProvenance
from walkback.protocol.schema import shortened
from walkback.protocol.seen_through import Sight
from walkback.protocol.sites import Blocks, Chain, Parts, find_chain
from walkback.protocol.untouched import underneath, untouched

TrainStep = Callable[[nn.Module, Any], Any]
"""train_step(model, batch) makes one step of training, in place."""
STEPS = 4
OTHER_SEED = 20261118


def provenance(
    model: nn.Module,
    train_step: TrainStep,
    batches: Iterable[Any],
    credit: CreditRule | CreditFunction | None = None,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    *,
    claimed_step: TrainStep | None = None,
    also: Sequence[nn.Module] = (),
    loss: Loss | None = None,
    blocks: Blocks = None,
    stem: Blocks = None,
    head: Blocks = None,
    logits: Logits = None,
    forward_kwargs: dict[str, Any] | None = None,
    steps: int = STEPS,
) -> UpdateProvenance:
    """Make some steps of training again and say, layer by layer, which rule the change of the weights comes from.

    The model, the optimizers, the modules of `also` and the random generators are put back as they were. What else
    train_step changes, such as a counter of its own, is not.

    Args:
        model: the network at a checkpoint.
        train_step: the user's own, called as train_step(model, batch): one step, in place.
        batches: training batches, as train_step takes them: (inputs, targets), or mappings with labels.
        credit: the claimed rule, as for `diagnose`: block l then follows the gradient of ⟨h_l, a_l⟩, averaged over the
            batch, and what lies behind the blocks the error at the logits. Not where blocks share their weights.
        optimizer: what train_step steps with, in the state of the checkpoint; several in a list. Without it the claimed
            change is the negative gradient itself, which is right for plain SGD alone.
        claimed_step: instead of a credit, a step by the claimed rule, called as train_step is.
        also: other modules that train_step changes, such as feedback networks.
        loss: as for `diagnose`, like all that follow.
        blocks: the residual blocks.
        stem: modules that come before h_0.
        head: modules that come after the last site.
        logits: which part of what the model returns are the logits.
        forward_kwargs: further arguments for every call of the model.
        steps: how many steps to make again, one for each batch.
    """
    _check(train_step, claimed_step, credit, steps)
    plain = underneath(model)
    raw = list(islice(batches, steps))
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer or ())
    everything = KeptState([plain, *also], optimizers)
    try:
        with untouched(plain):
            read = read_batches(raw, plain, calling=Calling(forward_kwargs or {}, logits))
            taken, found = with_loss(plain, read, loss)
            ready = list(found)
            parts = Parts(blocks, stem, head)
            chain = on_few(plain, ready[0], lambda few: find_chain(plain, few, parts))
        rule = AlignmentMeter.of(credit, 0).rule if credit is not None else None
        _check_shared(rule, chain)
        replay = Replay(model, plain, chain, optimizers, list(also), taken.loss, rule, train_step, claimed_step)
        for given, batch in zip(raw, ready, strict=True):
            replay.step(given, batch)
        return replay.record()
    finally:
        everything.restore()


def _check(train_step: Any, claimed_step: Any, credit: Any, steps: Any) -> None:
    for name, step in (("train_step", train_step), ("claimed_step", claimed_step)):
        if not callable(step) and (step is not None or name == "train_step"):
            raise InputError(f"{name} is {shortened(step)}; expected a function of (model, batch) that makes one step.")
    if credit is not None and claimed_step is not None:
        raise InputError("credit= and claimed_step= both say which rule is claimed; give one of them.")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise InputError(f"steps is {shortened(steps)}; expected how many steps to make again, 1 or more.")


def _check_shared(rule: CreditRule | None, chain: Chain) -> None:
    twice = next((block for block in chain.blocks if chain.blocks.count(block) > 1), None)
    if rule is not None and twice is not None:
        raise InputError(
            f"{twice} is called several times, so what a credit asks of its weights is not defined layer by layer. "
            "Pass claimed_step= instead of credit=."
        )


@dataclass
class Replay:
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

    def step(self, given: Any, batch: Batch) -> None:
        """Make one step in every way, and go on from the real one."""
        start = self._kept()
        met = self._met_forward(lambda: self.train_step(self.model, given))
        real, after = self._change(start), self._kept()
        start.restore()
        asked = self._asked(batch, met)
        start.restore()
        idle = self._through_optimizer(start, {name: torch.zeros_like(g) for name, g in asked.true.items()})
        found = {"true_gradient": self._through_optimizer(start, asked.true)}
        if self.claimed_step is not None:
            self.claimed_step(self.model, given)
            found["claimed"] = self._change(start)
            start.restore()
        elif asked.claimed is not None:
            found["claimed"] = self._through_optimizer(start, asked.claimed)
        _seed(OTHER_SEED + len(self.cosines.get("repeated", ())))
        self.train_step(self.model, given)
        found["repeated"] = self._change(start)
        self._compare(_less(real, idle), {name: _less(change, idle) for name, change in found.items()}, asked)
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

    def _compare(self, real: Gradients, others: dict[str, Gradients], asked: Asked) -> None:
        self.layers = asked.layers
        for name, change in others.items():
            row = [_cosine(real, change, inside) for inside in self._parameters_of_layers()]
            self.cosines.setdefault(name, []).append(row)

    def _parameters_of_layers(self) -> list[list[str]]:
        assert self.layers is not None
        count = len(self.chain.taps) + 1
        return [[name for name, layer in self.layers.items() if layer == number] for number in range(count)]

    def record(self) -> UpdateProvenance:
        """The mean cosines over the steps, of the layers that have parameters which learn."""
        names = ["stem", *self.chain.blocks, "head"]
        there = [number for number, inside in enumerate(self._parameters_of_layers()) if inside]
        fields: dict[str, Any] = {"layers": tuple(names[number] for number in there)}
        for name, rows in self.cosines.items():
            columns = [[row[number] for row in rows] for number in there]
            fields[name] = tuple(_mean(column) for column in columns)
            fields[f"{name}_range"] = tuple(_range(column) for column in columns)
        hidden = tuple(number != len(self.chain.taps) for number in there)
        claim = "none" if "claimed" not in self.cosines else "claimed_step" if self.claimed_step else "credit"
        steps = len(self.cosines["repeated"])
        return UpdateProvenance(steps=steps, claim=claim, hidden=hidden, optimizer=bool(self.optimizers), **fields)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def _less(change: Gradients, idle: Gradients) -> Gradients:
    """A change without what the optimizer does by itself."""
    return {name: value - idle[name] if name in idle else value for name, value in change.items()}


def _cosine(left: Gradients, right: Gradients, names: Sequence[str]) -> float | None:
    """Over all parameters of a layer as one vector; None where either side is zero or not finite."""
    if not names:
        return None
    one, other = (torch.cat([_values(side, name, left).reshape(-1) for name in names]) for side in (left, right))
    cosine = float(numerics.cosines(one, other))
    return cosine if cosine - cosine == 0 else None


def _values(side: Gradients, name: str, like: Gradients) -> Tensor:
    return side[name] if name in side else torch.zeros_like(like[name])


def _mean(column: Sequence[float | None]) -> float | None:
    known = [value for value in column if value is not None]
    return sum(known) / len(known) if known else None


def _range(column: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in column if value is not None]
    return (min(known), max(known)) if known else None
