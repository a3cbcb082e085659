"""Parameters that must not move: noticed while a training function runs, not after it.

Looked at are all of them after every step of any optimizer and before every forward pass of the network, and those of
one module before every forward pass of that module, for code that never calls the network as a whole.

*Versions and places* are compared each time, which costs next to nothing. torch counts what is written to a tensor
through the tensor itself, so optimizers, `p.add_(…)` and `p.copy_(…)` are seen at once; so are `p.data = …`, which puts
the values elsewhere, and a parameter that is replaced. *Values* are compared where those say that something was
written, and besides at the first eight looks and at each whose number is a power of two: `p.data -= …` leaves no other
trace, and nor does a module that is replaced. Done from the first step on it is noticed by the second; begun at look n,
by look 2n. At the end all values are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from walkback.errors import BaselineError

FIRST_LOOKS = 8


@dataclass
class Held:
    """One parameter as it was, and where the network keeps it."""

    name: str
    owner: nn.Module
    slot: str
    value: Tensor
    trace: tuple[int, ...]

    @classmethod
    def of(cls, name: str, owner: nn.Module, slot: str, parameter: nn.Parameter) -> Held:
        """Take down what it is now."""
        return cls(name, owner, slot, parameter.detach().clone(), _trace(parameter))

    def looks_written_to(self) -> bool:
        """Whether something was written through the parameter, or put in its place."""
        now = self.owner._parameters.get(self.slot)
        return now is None or _trace(now) != self.trace

    def moved(self) -> bool:
        """Whether its values are other ones, bit for bit; a cast to another precision alone is no move."""
        now = self.owner._parameters.get(self.slot)
        if now is None or now.shape != self.value.shape:
            return True
        if not _trace(now):
            return False
        value = self.value.to(device=now.device, dtype=now.dtype)
        if not _bits(now.detach()).equal(_bits(value)):
            return True
        self.value, self.trace = value, _trace(now)
        return False


def _trace(tensor: Tensor) -> tuple[int, ...]:
    """What a write changes, without a look at the values; empty for what is not in memory, as inside torch.func."""
    try:
        return id(tensor), tensor._version, tensor.data_ptr()
    except RuntimeError:
        return ()


def _bits(tensor: Tensor) -> Tensor:
    """As bytes: NaN is equal to itself, and 0 is not −0."""
    return tensor.reshape(-1).contiguous().view(torch.uint8)


class Watch:
    """The frozen parameters of one network, and how often they were looked at.

    It hangs on the network's modules as a hook. A copy of the network shares it, and it says nothing of the copy;
    in a network that is saved as a whole nothing is left of it.
    """

    def __init__(self, model: nn.Module, held: Sequence[Held]) -> None:
        self.held = held
        self.parts: dict[nn.Module, list[Held]] = {}
        for one in held:
            self.parts.setdefault(one.owner, []).append(one)
        self.parts[model] = list(held)
        self.looks, self.steps, self.passes = Counter[nn.Module](), 0, Counter[nn.Module]()
        self.model = model

    def __call__(self, module: nn.Module, _: Any) -> None:
        """Before a forward pass."""
        if torch.compiler.is_compiling() or module not in self.parts:
            return
        self.passes[module] += 1
        of = "the network" if module is self.model else f"its {type(module).__name__}"
        self._look(module, f"before forward pass {self.passes[module]} of {of}")

    def after_step(self, optimizer: Optimizer, *_: Any) -> None:
        """After a step of any optimizer."""
        self.steps += 1
        self._look(self.model, f"at step {self.steps} of {type(optimizer).__name__}")

    def _look(self, module: nn.Module, when: str) -> None:
        self.looks[module] += 1
        number, part = self.looks[module], self.parts[module]
        closely = number <= FIRST_LOOKS or number & (number - 1) == 0
        self.compare([one for one in part if closely or one.looks_written_to()], when)

    def compare(self, suspects: Sequence[Held], when: str) -> None:
        """Raise where values are other than they were, or where the module that holds them is no longer there."""
        there = set(self.model.modules()) if suspects else set()
        moved = list(dict.fromkeys(one.name for one in suspects if one.owner not in there or one.moved()))
        if moved:
            frozen = len({one.name for one in self.held})
            raise BaselineError(
                f"train_fn changed {len(moved)} of {frozen} frozen parameters ({moved[0]} first), noticed {when}, so "
                "this is not a frozen baseline. Let it leave requires_grad and the modules of the blocks as they are, "
                "and skip parameters whose requires_grad is False."
            )

    def __deepcopy__(self, _: Any) -> Watch:
        return self

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _nothing_left, ()


def _nothing_left() -> Callable[..., None]:
    return _look_away


def _look_away(*_: Any) -> None:
    return None


@contextmanager
def kept_still(model: nn.Module, frozen: Mapping[str, nn.Parameter]) -> Iterator[None]:
    """Raise `BaselineError` inside the context as soon as one of these parameters is seen to have moved."""
    names = {parameter: name for name, parameter in frozen.items()}
    held = [
        Held.of(names[parameter], module, slot, parameter)
        for module in model.modules()
        for slot, parameter in module._parameters.items()
        if parameter is not None and parameter in names
    ]
    watch = Watch(model, held)
    with ExitStack() as stack:
        for module in watch.parts:
            stack.callback(module.register_forward_pre_hook(watch).remove)
        stack.callback(register_optimizer_step_post_hook(watch.after_step).remove)
        yield
    watch.compare(held, "when it had ended")
