"""Everything that a training step changes, taken down and put back: weights, buffers, gradients, optimizers, modes and
random states."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer


def random_states() -> tuple[Any, ...]:
    """Of Python, numpy and torch, on every device that is in use."""
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if on_cuda else None
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda  # noqa: NPY002


def set_random_states(states: tuple[Any, ...]) -> None:
    """Put the random generators where they were."""
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])
    if states[3] is not None:
        torch.cuda.set_rng_state_all(states[3])


@dataclass
class KeptState:
    """Modules, optimizers and random states as they are when this is made; `restore` puts them back."""

    modules: Sequence[nn.Module]
    optimizers: Sequence[Optimizer] = ()
    values: list[tuple[Tensor, Tensor]] = field(init=False)
    grads: list[tuple[Tensor, Tensor | None, Tensor | None]] = field(init=False)
    modes: list[tuple[nn.Module, bool]] = field(init=False)
    wanted: list[tuple[Tensor, bool]] = field(init=False)
    random: tuple[Any, ...] = field(init=False)
    _optimizers: list[tuple[Optimizer, list[dict[str, Any]], dict[Any, dict[str, Any]]]] = field(init=False)

    def __post_init__(self) -> None:
        held = [tensor for module in self.modules for tensor in (*module.parameters(), *module.buffers())]
        parameters = [parameter for module in self.modules for parameter in module.parameters()]
        self.values = [(tensor, tensor.detach().clone()) for tensor in held]
        self.grads = [(p, p.grad, None if p.grad is None else p.grad.detach().clone()) for p in parameters]
        self.wanted = [(p, p.requires_grad) for p in parameters]
        self.modes = [(inner, inner.training) for module in self.modules for inner in module.modules()]
        self._optimizers = [(one, *_taken_down(one)) for one in self.optimizers]
        self.random = random_states()

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back, in place; what an optimizer holds is then what it held, in the same tensors."""
        for tensor, value in self.values:
            tensor.copy_(value)
        for parameter, wanted in self.wanted:
            parameter.requires_grad_(wanted)
        for parameter, grad, held in self.grads:
            if grad is not None and held is not None:
                grad.copy_(held)
            parameter.grad = grad
        for module, training in self.modes:
            module.training = training
        for optimizer, groups, state in self._optimizers:
            for group, before in zip(optimizer.param_groups, groups, strict=True):
                group.update(before)
            optimizer.state.clear()
            optimizer.state.update({key: {name: _back(entry) for name, entry in held.items()}
                                    for key, held in state.items()})  # fmt: skip
        set_random_states(self.random)


def _taken_down(optimizer: Optimizer) -> tuple[list[dict[str, Any]], dict[Any, dict[str, Any]]]:
    """The settings of the groups, and of every parameter what is held for it: tensors beside a copy of their values."""
    groups = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    state = {
        key: {name: (entry, entry.clone()) if isinstance(entry, Tensor) else (entry, None)
              for name, entry in held.items()}
        for key, held in optimizer.state.items()
    }  # fmt: skip
    return groups, state


def _back(entry: tuple[Any, Tensor | None]) -> Any:
    tensor, value = entry
    return tensor if value is None else tensor.copy_(value)
