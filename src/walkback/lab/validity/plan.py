"""Every network of the bench, as a configuration: drawn once from fixed seeds, the same for everybody. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

import numpy as np

from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.config import NetworkConfig, digest
from walkback.lab.validity.networks import ARCHITECTURES
from walkback.lab.validity.tasks import TASKS, maker_of

PLAN_SEED = 20261118
"""Of the draws below; networks of trials have other seeds, so that nothing was chosen by looking at the bench."""
HEALTHY_NETWORKS, FAULT_NETWORKS = 510, 45
"""Of each condition, spares included: a network that turns out not to be what its condition says is replaced by the
next in the order of the split."""

SHARES = {
    "resmlp": 0.27, "student_net": 0.18, "plain_mlp": 0.19, "small_cnn": 0.12, "small_resnet": 0.08, "vit_mini": 0.08,
    "text_transformer": 0.08,
}  # fmt: skip
"""Of the healthy networks, by architecture; transformers take several times as long."""
EPOCHS = {"small_cnn": (12, 16), "small_resnet": (14, 18), "vit_mini": (14, 18), "text_transformer": (10, 12)}
PERCEPTRON_EPOCHS = (16, 20, 26)
OPTIMIZERS = (
    ("adamw", 2e-3, 0.0), ("adamw", 1e-3, 0.01), ("adamw", 3e-3, 0.05), ("adam", 2e-3, 0.0), ("rmsprop", 1e-3, 0.0),
)  # fmt: skip
"""Optimizer, learning rate, weight decay."""
METHODS = {
    "resmlp": ("bp", "bp", "bp", "fa", "dfa"),
    "student_net": ("bp", "bp", "bp", "fa", "dfa"),
    "plain_mlp": ("bp", "bp", "bp", "fa"),
    "small_cnn": ("bp", "bp", "fa"),
    "small_resnet": ("bp",),
    "vit_mini": ("bp",),
    "text_transformer": ("bp",),
}
"""The rules that work on each architecture, as often as they are listed."""
FAULT_WIDTHS, FAULT_DEPTHS = (32, 48, 64), (3, 4)

Chosen = TypeVar("Chosen")


def _one(generator: np.random.Generator, options: Sequence[Chosen]) -> Chosen:
    return options[int(generator.integers(len(options)))]


def _tasks_for(architecture: str, allowed: Sequence[str] = ()) -> list[str]:
    reads = ARCHITECTURES[architecture].reads
    return [name for name, maker in TASKS.items() if maker.kind in reads and (not allowed or name in allowed)]


def _samples(task: str, level: int) -> int:
    return 4096 if (task, level) in (("parity", 3), ("shells", 3)) else 2048


def healthy(number: int, attempt: int = 0) -> NetworkConfig:
    """A healthy configuration: architecture, data, rule, optimizer, depth, width and norm drawn at random."""
    generator = np.random.default_rng((PLAN_SEED, number, attempt))
    architecture = str(generator.choice(list(SHARES), p=list(SHARES.values())))
    kind = ARCHITECTURES[architecture]
    needing = [task for task in _tasks_for(architecture) if maker_of(task).needs_depth]
    others = [task for task in _tasks_for(architecture) if not maker_of(task).needs_depth]
    task = _one(generator, others if others and generator.random() < 0.3 else needing)
    level = _one(generator, maker_of(task).levels)
    optimizer, rate, decay = _one(generator, OPTIMIZERS)
    return NetworkConfig(
        condition="healthy",
        number=number,
        architecture=architecture,
        width=_one(generator, kind.widths),
        depth=_one(generator, kind.depths),
        norm=_one(generator, kind.norms),
        task=task,
        level=level,
        samples=_samples(task, level),
        method=_one(generator, METHODS[architecture]),
        optimizer=optimizer,
        rate=rate,
        weight_decay=decay,
        schedule=_one(generator, ("cosine", "linear", "constant")),
        batch=_one(generator, (32, 64, 64)),
        epochs=_one(generator, EPOCHS.get(architecture, PERCEPTRON_EPOCHS)),
        seed=int(generator.integers(2**31)),
    )


def fault(name: str, number: int) -> NetworkConfig:
    """A network with a fault: its four architectures and the settings of its dial in turn, the rest drawn at random."""
    condition = condition_named(name)
    generator = np.random.default_rng((PLAN_SEED, 1 + FAULTS.index(name), number, 7))
    architecture = condition.architectures[number % len(condition.architectures)]
    turn = number // len(condition.architectures)
    kind = ARCHITECTURES[architecture]
    tasks = _tasks_for(architecture, condition.tasks)
    task = _one(generator, tasks)
    level = _one(generator, maker_of(task).levels)
    optimizer, rate, decay = _one(generator, OPTIMIZERS)
    return NetworkConfig(
        condition=name,
        number=number,
        dial=condition.dials[turn % len(condition.dials)],
        architecture=architecture,
        width=_one(generator, [width for width in kind.widths if width in FAULT_WIDTHS]),
        depth=_one(generator, [depth for depth in kind.depths if depth in FAULT_DEPTHS]),
        norm=_one(generator, [norm for norm in kind.norms if norm != "bare"]),
        task=task,
        level=level,
        samples=_samples(task, level),
        method=_one(generator, condition.methods),
        optimizer=optimizer,
        rate=rate,
        weight_decay=decay,
        schedule=_one(generator, ("cosine", "linear")),
        batch=64,
        epochs=_one(generator, EPOCHS.get(architecture, PERCEPTRON_EPOCHS)),
        seed=int(generator.integers(2**31)),
    )


def _distinct_healthy() -> Iterator[NetworkConfig]:
    """No two alike but for their seed."""
    seen: set[str] = set()
    for number in range(HEALTHY_NETWORKS):
        attempt = 0
        while digest((config := healthy(number, attempt)).kind) in seen:
            attempt += 1
        seen.add(digest(config.kind))
        yield config


@cache
def plan() -> dict[str, tuple[NetworkConfig, ...]]:
    """All configurations by condition, in the order of their numbers."""
    faults = {name: tuple(fault(name, number) for number in range(FAULT_NETWORKS)) for name in FAULTS}
    return {"healthy": tuple(_distinct_healthy()), **faults}
