"""A network in fp64, in the place of itself: its sites and gradients, and its logits where a site holds other numbers.

It runs with fp64 copies of its parameters and buffers in place of its own. For an fp32 network, from the first
measured site as it is: what comes before takes most of the time and memory there, and one more rounding of that site to
fp32 bends no gradient. Where parameters of a module that runs on (a class token of the network itself) meet what comes
before, fp32 and fp64 do not mix, and all of the network is copied; so it is where the site is a view.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from walkback.protocol.batches import Batch
from walkback.protocol.capture import Sites, sites_and_grads
from walkback.protocol.devices import autocasting, without_autocast
from walkback.protocol.losses import Loss, error_at_logits
from walkback.protocol.pass_state import begin_again, passes_alike
from walkback.protocol.site_reader import SiteSetter
from walkback.protocol.sites import Chain

SEED = 20260415
"""Before each pass, so that a network which draws random numbers draws the same ones."""


@dataclass(frozen=True)
class Doubled:
    """Some samples in a network whose parameters are in fp64 for as long as the context lasts that made this."""

    model: nn.Module
    chain: Chain
    batch: Batch
    loss: Loss | None
    begin_in: torch.dtype | None = None
    """What the stream is converted to at the first site, if to anything."""
    exact: bool = True
    """In fp64; else in the network's own precision, which does not go with fp64."""
    at_once: int = 0
    """How many samples have passed at once."""

    def sites(self, look: Callable[[Tensor], None] = lambda logits: None) -> Sites:
        """h_l and ∂ℓ/∂h_l at every site; `look` is given the logits with their graph."""
        seed_all()

        def error_of(logits: Tensor) -> Tensor:
            look(logits)
            return error_at_logits(self.loss, logits, self.batch.targets)

        return sites_and_grads(self.call, self.chain, error_of, self.begin_in)

    def call(self) -> Tensor:
        """The logits of one pass."""
        return self.batch.call(self.model, self.chain.changes_input)

    def logits_of_each(self, site: int, values: list[Tensor], together: bool) -> list[Tensor]:
        """The logits for each of several values of a site; in one pass where asked, where inputs are plain rows, and
        where no more of them pass at once than have passed before."""
        rows, many = self.batch.inputs, len(values)
        plain = isinstance(rows, Tensor) and len(rows) == self.batch.size and many * self.batch.size <= self.at_once
        alone = not self.batch.labels and not self.batch.calling.forward_kwargs
        if not together or not plain or not alone or many == 1:
            return [self.logits(site, value) for value in values]
        batch = replace(self.batch, inputs=torch.cat([rows] * many), targets=torch.cat([self.batch.targets] * many))
        return list(replace(self, batch=batch).logits(site, torch.cat(values)).chunk(many))

    def first(self, count: int) -> Doubled:
        """The same with its first samples alone."""
        return replace(self, batch=self.batch.first(min(count, self.batch.size)))

    @cached_property
    def _memory(self) -> set[int]:
        stores = [store for m in self.model.modules() for store in (m._parameters, m._buffers) if store]
        return {tensor.data_ptr() for store in stores for tensor in store.values() if tensor is not None}

    @torch.no_grad()
    def logits(self, site: int, value: Tensor) -> Tensor:
        """The logits, in fp64, where a site holds this value, samples along its first axis."""
        tap = self.chain.taps[site]
        arranged = value.transpose(0, 1) if value.ndim == 3 and tap.samples_axis == 1 else value
        setter = SiteSetter(self.chain, site, arranged, self.begin_in, self._memory)
        seed_all()
        with setter.attached():
            # A copy of the input always: it may itself be the site.
            return self.batch.call(self.model, copy=True).double()


def seed_all() -> None:
    """The random generators as they are before every pass; whoever calls this puts them back."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002
    torch.default_generator.manual_seed(SEED)
    # torch.manual_seed would queue a seed for a device that nobody has used yet, and leave it there.
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(SEED)


@cache
def _fresh_python() -> tuple[Any, ...]:
    return random.Random(SEED).getstate()  # nosec B311


@cache
def _fresh_numpy() -> tuple[Any, ...]:
    state: tuple[Any, ...] = np.random.RandomState(SEED).get_state(legacy=True)  # type: ignore[assignment]
    return state[2:4]


@cache
def _fresh_torch(device: torch.device) -> Tensor:
    return torch.Generator(device).manual_seed(SEED).get_state()


def have_drawn() -> bool:
    """Whether anything has drawn random numbers since they were seeded."""
    numpy: tuple[Any, ...] = np.random.get_state(legacy=True)  # type: ignore[assignment]  # noqa: NPY002
    # The place in the generator's block of numbers, and whether half of a pair of normal ones is kept.
    if random.getstate() != _fresh_python() or numpy[2:4] != _fresh_numpy():
        return True
    generators = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        generators += torch.cuda.default_generators
    return any(not torch.equal(own.get_state(), _fresh_torch(own.device)) for own in generators)


Result = TypeVar("Result")


@contextmanager
def in_double(
    model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, attempt: Callable[[Doubled], Result]
) -> Iterator[tuple[Doubled, Result, str]]:
    """The network in fp64, what an attempt came to there, and, where it went in its own precision only, why.

    The first way in which the attempt raises nothing is taken; where there is none, the last one's error is raised.
    """
    why, ways = "", list(_ways(model, chain, batch))
    for number, (enter, batch_there, begin_in, exact) in enumerate(ways):
        with ExitStack() as stack:
            doubled = Doubled(model, chain, batch_there, loss, begin_in, exact, batch_there.size)
            try:
                enter(stack)
                result = attempt(doubled)
            except Exception as error:  # whatever a model does not support in fp64
                why = in_short(error)
                if number + 1 == len(ways):
                    raise
                continue
            yield doubled, result, why
            return


def in_short(error: BaseException) -> str:
    """The first line of an error."""
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__


Way = tuple[Callable[[ExitStack], Any], Batch, torch.dtype | None, bool]


def _ways(model: nn.Module, chain: Chain, batch: Batch) -> Iterator[Way]:
    # By hand, here and below: the iterators of a model walk over its tree many times.
    parameters = [p for m in model.modules() for p in m._parameters.values() if p is not None and p.is_floating_point()]
    if parameters and all(p.dtype == torch.float64 for p in parameters):
        yield lambda stack: None, batch, None, True
        return
    device = parameters[0].device if parameters else torch.device("cpu")
    single = all(p.dtype == torch.float32 for p in parameters)
    plain = single and not autocasting(device)

    def doubling(but: Iterable[nn.Module]) -> Callable[[ExitStack], Any]:
        def enter(stack: ExitStack) -> None:
            stack.enter_context(without_autocast(device))
            stack.enter_context(_in_double(model, but))

        return enter

    if plain and chain.stem:
        yield doubling(chain.stem), batch, torch.float64, True
    yield doubling(()), batch.to_double(), None, True
    if plain:
        yield lambda stack: None, batch, None, False


@contextmanager
def _in_double(model: nn.Module, but: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Put fp64 copies in the place of parameters, buffers and other tensors that modules hold, outside some modules.

    For the backward pass too, unlike torch.func.functional_call: activation checkpointing computes again there.
    """
    begin_again(model)  # or the state that the last pass left would be taken for that of the network
    copies: dict[int, Tensor] = {}
    left_alone = {inner for module in but for inner in module.modules()}
    modules = [module for module in model.modules() if module not in left_alone]
    stores = [store for module in modules for store in (module._parameters, module._buffers, vars(module)) if store]
    originals = [
        (store, name, tensor)
        for store in stores
        for name, tensor in store.items()
        if isinstance(tensor, Tensor) and tensor.is_floating_point()
    ]
    flat = [(module, module._flat_weights) for module in modules if isinstance(module, nn.RNNBase)]

    def doubled(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().double()
        return copies[id(tensor)]

    try:
        for store, name, tensor in originals:
            store[name] = doubled(tensor)  # type: ignore[assignment]
        for module, weights in flat:
            # A recurrent module reads its weights from a list of its own.
            module._flat_weights = [w if w is None else doubled(w) for w in weights]
        with passes_alike(model):  # from the same state as in fp32, in fp64
            yield
    finally:
        for store, name, tensor in originals:
            store[name] = tensor  # type: ignore[assignment]
        for module, weights in flat:
            module._flat_weights = weights
