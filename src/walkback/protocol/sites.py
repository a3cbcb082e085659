"""Which tensors of a network are its residual stream: the sites h_0 … h_L, in any nn.Module.

A network is watched during one small forward pass (`calls`, `flow`); its blocks are named, or found by structure
(`chains`); and what each stage hands on is a site (`boundaries`), read at the module that writes or reads it, or where
its function is called. A site that is no module's, such as a skip that is added outside the blocks, is one like any
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Literal, NamedTuple, cast

from torch import Tensor, nn

from walkback.errors import BatchError, BlocksError
from walkback.protocol.batches import Batch
from walkback.protocol.block_names import Blocks as Blocks
from walkback.protocol.block_names import pattern_of, plain_modules
from walkback.protocol.boundaries import Boundaries
from walkback.protocol.calls import Call, Watched, Wire, watch_forward
from walkback.protocol.chains import Run
from walkback.protocol.choice import chosen_run
from walkback.protocol.flow import Value
from walkback.protocol.offers import pattern_of_calls
from walkback.protocol.parameters import parameters_of
from walkback.protocol.parts import Division
from walkback.protocol.parts import Parts as Parts
from walkback.protocol.stage_summary import parameters_between, parts_in_words


@dataclass(frozen=True)
class Tap:
    """Where one site is read: at the input or output of one call of a module, or at a function after one of them."""

    name: str
    module: nn.Module
    end: Literal["input", "output"]
    nth: int = 0
    """How often the module is called before."""
    position: int = 0
    """Which of the floating tensors there."""
    samples_axis: int = 0
    """1 in a network that puts the sequence first."""
    step: int = 0
    """0 at the module itself; else which function after that, of those that make a floating tensor."""
    function: str = ""
    """What that function is called."""

    def __str__(self) -> str:
        if self.step:
            return f"{self.function} after {self.name}"
        return self.name if self.end == "output" else f"input of {self.name}"


@dataclass(frozen=True)
class Chain:
    """The blocks of a network in the order of their calls, and where its sites are read."""

    blocks: tuple[str, ...]
    taps: tuple[Tap, ...]
    pattern: str
    """The blocks as one `blocks=` argument: a glob where one fits."""
    changes_input: bool = False
    """The forward pass writes to its input, and must be given a copy."""
    values_per_sample: int = 1
    """How many numbers one sample has at all sites together."""
    left_at: Mapping[nn.Module, int] = field(default_factory=dict)
    """When each module was left for the last time in the watched pass."""
    read_at: tuple[int, ...] = ()
    """When each site was read."""
    keeps_stream: bool = False
    """Nothing writes to a site once it is read, as a pass with copies has shown."""
    numbers: tuple[int, ...] | None = None
    """Which of the network's sites the taps are; None where they are all of them."""
    last: int = 0
    """The number of the network's last site, where the taps are not all."""
    found: bool = True
    """Whether the blocks were found by structure, not named."""
    parts: str = ""
    """The network's parts in one line: stem, blocks, what lies between them, head."""
    parameters: tuple[str, ...] = ()
    """The parameters of the blocks and of what lies between them, by dotted name."""

    @property
    def stem(self) -> frozenset[nn.Module]:
        """The modules whose work is done when the first site is read."""
        return frozenset(module for module, left in self.left_at.items() if left <= self.read_at[0])

    @property
    def middle(self) -> int | None:
        """The place among the taps of the network's middle site, ⌊L/2⌋; None where it was left out."""
        if self.numbers is None:
            return (len(self.taps) - 1) // 2
        return self.numbers.index(self.last // 2) if self.last // 2 in self.numbers else None


class Found(NamedTuple):
    """A chain of blocks, and the forward pass that showed it."""

    chain: Chain
    watched: Watched
    first: Value
    """h_0 in that pass."""


def find_chain(model: nn.Module, batch: Batch, blocks: Blocks | Parts = None) -> Chain:
    """The chain of blocks: the named ones, or what the structure shows."""
    return find_and_watch(model, batch, blocks).chain


def find_and_watch(model: nn.Module, batch: Batch, blocks: Blocks | Parts = None) -> Found:
    """The chain of blocks, and the forward pass that showed it."""
    parts = Parts.of(blocks)
    parts.check(model)
    watched = watch_forward(model, batch)
    division = Division(model, watched, parts)
    return _found(division, chosen_run(division))


class Stages(NamedTuple):
    """What a baseline leaves at random: the blocks and what lies between them, by name."""

    blocks: tuple[str, ...]
    pattern: str
    parameters: frozenset[str]


def find_stages(model: nn.Module, batch: Batch, blocks: Blocks | Parts = None) -> Stages:
    """The blocks by name alone: which of their calls is meant need not be said, and named ones need no forward pass."""
    parts = Parts.of(blocks)
    parts.check(model)
    named = named_stages(model, parts)
    try:
        watched = watch_forward(model, batch)
    except Exception:
        if named is None:
            raise
        return named
    division = Division(model, watched, parts)
    runs = division.runs()
    if named is None and len({frozenset(call.name for call in run) for run in runs}) != 1:
        runs = [chosen_run(division)]
    parameters = {name for run in runs for name in _found(division, run).chain.parameters}
    return _stages(model, [call.name for run in runs for call in run], parameters)


def named_stages(model: nn.Module, parts: Parts) -> Stages | None:
    """The named blocks and their own parameters, without a forward pass; None where blocks are to be found."""
    parts.check(model)
    named = parts.named(model)
    if named is None:
        return None
    inside = {id(parameter) for module in named for parameter in module.parameters()}
    names = {name for name, parameter in parameters_of(model).items() if id(parameter) in inside}
    return _stages(model, list(named.values()), names)


def _stages(model: nn.Module, names: Sequence[str], parameters: Iterable[str]) -> Stages:
    return Stages(tuple(dict.fromkeys(names)), pattern_of(names, plain_modules(model)), frozenset(parameters))


def _found(division: Division, run: Run) -> Found:
    watched = division.watched
    boundaries = Boundaries(watched, run, division.head_at)
    sites = boundaries.sites()
    taps = tuple(_tap(watched, run, number, site) for number, site in enumerate(sites))
    pattern = pattern_of_calls(watched, run)
    read_at = tuple(_read_at(watched, tap, site) for tap, site in zip(taps, sites, strict=True))
    chain = Chain(
        blocks=tuple(call.name for call in run),
        taps=taps,
        pattern=pattern,
        changes_input=watched.changes_input,
        values_per_sample=max(sum(prod(site.shape) for site in sites) // watched.samples, 1),
        left_at=watched.left_at,
        read_at=read_at,
        found=not division.given,
        parts=parts_in_words(watched, run, read_at, pattern, boundaries.between),
        parameters=parameters_between(division.model, watched, run, sites),
    )
    return Found(chain, watched, sites[0])


def _tap(watched: Watched, run: Run, number: int, site: Value) -> Tap:
    """Where a site is read: at its own block, at the next one, at another module, or where it is made."""
    block, following = run[max(number - 1, 0)], run[min(number, len(run) - 1)]
    own = [(block, "output", block.written)] if number else []
    own += [(following, "input", following.read)] if number < len(run) else []
    others = [(call, "output", wire) for call in watched.calls for wire in call.returned]
    others += [(call, "input", wire) for call in watched.calls for wire in call.taken]
    # The graph begins at a site, so it must be read before anything is made from it.
    used = min((watched.reach.values[use].time for use in watched.reach.uses(site.number)), default=inf)
    for call, end, wire in [*own, *others]:
        if wire.value is site and (call.left if end == "output" else call.entered) < used:
            return _at_module(watched, call, cast(Literal["input", "output"], end), wire)
    return _at_function(watched, block, site)


def _at_module(watched: Watched, call: Call, end: Literal["input", "output"], wire: Wire) -> Tap:
    axis = _samples_axis(wire.value.shape, call.module, watched.samples)
    return Tap(watched.label(call), call.module, end, call.nth, wire.position, axis)


def _at_function(watched: Watched, block: Call, site: Value) -> Tap:
    """Where the function that makes it is called, or, of what comes from outside, where the model is called."""
    axis = _samples_axis(site.shape, block.module, watched.samples)
    root = next((wire for wire in watched.given if wire.value is site), None)
    place = site.place
    if root is not None:
        return Tap("the network", watched.root, "input", 0, root.position, axis)
    if place is None:
        raise BlocksError(
            f"the stream around {block.name} is made where no torch function is called, so it cannot be read there. "
            "Pass blocks= with modules whose outputs are the residual stream."
        )
    end = cast(Literal["input", "output"], place.end)
    name = watched.label(block)
    return Tap(name, place.module, end, place.nth, place.position, axis, place.step, site.made_by)


def _read_at(watched: Watched, tap: Tap, site: Value) -> int:
    if tap.step:
        return site.time
    call = next((c for c in watched.calls if (c.module, c.nth) == (tap.module, tap.nth)), None)
    if call is None:
        return site.time
    return call.entered if tap.end == "input" else call.left


def _samples_axis(shape: tuple[int, ...], module: nn.Module, samples: int) -> int:
    """0, or 1 for the (T, B, d) of a sequence-first module."""
    if len(shape) == 3 and shape[1] == samples:
        sequence_first = any(getattr(m, "batch_first", True) is False for m in module.modules())
        return 1 if sequence_first or shape[0] != samples else 0
    return 0


def samples_first(tensor: Tensor, tap: Tap, samples: int) -> Tensor:
    """A site with its samples along the first axis: (T, B, d) of a sequence-first module is turned."""
    if tensor.ndim == 3 and tap.samples_axis == 1:
        tensor = tensor.transpose(0, 1)
    if tensor.ndim < 2 or tensor.shape[0] != samples:
        raise BatchError(
            f"site '{tap}' has the shape {tuple(tensor.shape)} for a batch of {samples} samples; expected one row per "
            "sample. Pass blocks= with modules whose outputs keep the batch axis, or let forward keep it, as (B, T, d) "
            "for (B·T, d); if sequences are packed, pad them."
        )
    return tensor
