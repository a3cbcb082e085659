"""Which tensors of a network are its residual stream: the sites h_0 … h_L, in any nn.Module.

A network is watched during one small forward pass. Modules of one type and one depth in the tree that hand
a tensor on from each to the next are a chain of blocks. Where each block's output is the next one's input,
the sites are the first block's input and every block's output. Where something happens in between (an
activation function, a skip added outside the block), the sites are the blocks' inputs and the input of
whatever comes after the last; where a skip goes around a block's input, as in h + f(norm(h)), the input of
the module before it through which all of the stream passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from walkback.errors import BatchError, BlocksError
from walkback.protocol.batches import Batch
from walkback.protocol.block_names import Blocks as Blocks
from walkback.protocol.block_names import given_modules, pattern_of, plain_modules
from walkback.protocol.calls import Call, Watched, Wire, ancestors, leads_to, same_memory, watch_forward

Run = list[Call]


@dataclass(frozen=True)
class Tap:
    """Where one site is read: at the input or the output of one call of a module."""

    name: str
    module: nn.Module
    end: Literal["input", "output"]
    nth: int = 0
    """How often the module is called before."""
    position: int = 0
    """Which of the floating tensors there."""
    samples_axis: int = 0
    """1 in a network that puts the sequence first."""

    def __str__(self) -> str:
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


def find_chain(model: nn.Module, batch: Batch, blocks: Blocks = None) -> Chain:
    """The chain of blocks: the named ones, or the longest that the structure shows."""
    return find_and_watch(model, batch, blocks)[0]


def find_and_watch(model: nn.Module, batch: Batch, blocks: Blocks = None) -> tuple[Chain, Watched]:
    """The chain of blocks, and the forward pass that showed it."""
    chosen = given_modules(model, blocks) if blocks is not None else None
    watched = watch_forward(model, batch)
    calls, logits = watched.calls, watched.logits
    if chosen is not None:
        run = [call for call in calls if call.module in chosen]
        _check_all_called(run, list(chosen.values()))
    else:
        run = _found(model, calls, logits)
    taps = _taps(run, calls, logits, batch.size)
    names = tuple(call.name for call in run)
    values = sum(wire_of(tap, calls).tensor.numel() for tap in taps) // batch.size
    chain = Chain(
        blocks=names,
        taps=taps,
        pattern=pattern_of(names, plain_modules(model)),
        changes_input=watched.changes_input,
        values_per_sample=max(values, 1),
        left_at=watched.left_at,
        read_at=tuple(_read_at(tap, calls) for tap in taps),
    )
    return chain, watched


def wire_of(tap: Tap, calls: Sequence[Call]) -> Wire:
    """The tensor that a tap read in a watched pass."""
    call = _call_of(tap, calls)
    return call.read if tap.end == "input" else call.written


def _call_of(tap: Tap, calls: Sequence[Call]) -> Call:
    return next(call for call in calls if (call.module, call.nth) == (tap.module, tap.nth))


def _read_at(tap: Tap, calls: Sequence[Call]) -> int:
    call = _call_of(tap, calls)
    return call.entered if tap.end == "input" else call.left


def _check_all_called(run: Run, expected: Sequence[str]) -> None:
    called = {call.name for call in run}
    missing = [name for name in expected if name not in called]
    if missing:
        raise BlocksError(
            f"the forward pass never calls {', '.join(missing)} with a floating tensor; expected blocks that the "
            "residual stream passes through. Leave them out of blocks=."
        )


def _found(model: nn.Module, calls: Sequence[Call], logits: Wire) -> Run:
    candidates = _candidates(calls, logits)
    if not candidates:
        raise BlocksError(
            f"no chain of blocks was found in {type(model).__name__}: between what embeds the input and what writes "
            "the output, no modules of one type hand a tensor on. Pass blocks=, e.g. blocks='layers.*' or a list of "
            "modules."
        )
    best = _outermost(candidates)
    if len(best) > 1:
        names = plain_modules(model)
        listed = "; ".join(f"blocks={pattern_of([c.name for c in run], names)!r} ({len(run)} blocks)" for run in best)
        raise BlocksError(f"several chains of blocks are as long as each other. Pass one of: {listed}.")
    return best[0]


def _candidates(calls: Sequence[Call], logits: Wire) -> list[Run]:
    """The longest chains: handed on directly, or, where there are none, through other operations."""
    families: dict[object, Run] = {}
    for call in calls:
        if call.has_matrix:
            families.setdefault(call.family, []).append(call)

    def trimmed(runs: Sequence[Run]) -> list[Run]:
        return [ends for run in runs if len(run) > 1 and (ends := _without_stem_and_head(run, calls, logits))]

    direct: list[tuple[int, Run]] = []
    for family in families.values():
        for group in _joined(_runs(family, lambda a, b: a.written.same_as(b.read))):
            stretches = trimmed([run for run in group if len(run) > 1])
            whole = trimmed([[call for run in group for call in run]])
            direct += [(max(map(len, stretches)), run) for run in whole if stretches]
    longest = max((length for length, _ in direct), default=0)
    if longest > 1:
        return [run for length, run in direct if length == longest]
    through = trimmed([run for family in families.values() for run in _runs(family, leads_to)])
    outer = [run for run in through if not any(_inside(run, other) for other in through if len(other) > 1)]
    found = [run for run in outer if len(run) > 1] or [run for _, run in direct] or outer
    return [run for run in found if len(run) == max(map(len, found))]


def _runs(family: Sequence[Call], linked: Callable[[Call, Call], bool]) -> list[Run]:
    """Split calls in their order into runs, each call linked to the one before it; runs may interleave."""
    runs: list[Run] = []
    for call in family:
        run = next((run for run in reversed(runs) if linked(run[-1], call)), None)
        if run is None:
            runs.append([call])
        else:
            run.append(call)
    return runs


def _joined(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that follow one another on one stream, such as stages with something in between, side by side."""
    if all(len(run) == 1 for run in runs):
        return []
    groups: list[list[Run]] = []
    for run in runs:
        if groups and leads_to(groups[-1][-1][-1], run[0]):
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def _without_stem_and_head(run: Run, calls: Sequence[Call], logits: Wire) -> Run:
    """Leave out a first module that embeds the raw input, and a last one that writes the logits."""
    first, last = run[0], run[-1]
    writes_logits = same_memory(last.written.tensor, logits.tensor) or (
        not _hands_on(run) and not any(c.has_weights for c in calls if c.entered > last.left and leads_to(last, c))
    )
    if first.read.node is None and first.read.tensor.shape != first.written.tensor.shape:
        run = run[1:]
    return run[:-1] if writes_logits else run


def _hands_on(run: Run) -> bool:
    """Whether each block's output is the next one's input as it is."""
    return all(a.written.same_as(b.read) for a, b in pairwise(run))


def _outermost(best: list[Run]) -> list[Run]:
    """Of chains as long as each other: not those inside another, nor the later of two on one stream."""
    outer = [run for run in best if not any(_inside(run, other) for other in best if other is not run)]
    return [run for run in outer if not any(_takes_turns(other, run) for other in outer if other is not run)]


def _inside(run: Run, other: Run) -> bool:
    return any(run[0].name.startswith(call.name + ".") for call in other)


def _takes_turns(first: Run, second: Run) -> bool:
    """Whether the two alternate on one stream, as attention and feed-forward modules do; `first` begins."""
    if len(first) < 2 or not first[0].left < second[0].entered < first[1].entered:
        return False
    return leads_to(first[0], second[0]) and leads_to(second[0], first[1])


def _taps(run: Run, calls: Sequence[Call], logits: Wire, samples: int) -> tuple[Tap, ...]:
    if _hands_on(run):
        outputs = [_tap(call, "output", samples) for call in run]
        return (_tap(run[0], "input", samples), *outputs)
    return tuple(_tap(call, "input", samples) for call in _entrances(run, calls, logits))


def _tap(call: Call, end: Literal["input", "output"], samples: int) -> Tap:
    wire = call.read if end == "input" else call.written
    axis = _samples_axis(wire.tensor, call.module, samples)
    return Tap(call.name, call.module, end, call.nth, wire.position, axis)


def _entrances(run: Run, calls: Sequence[Call], logits: Wire) -> Run:
    """The calls whose inputs are the sites, where blocks do not hand their output on as it is."""
    entrances = [_entrance(before, block, run[0], calls, logits) for before, block in pairwise(run)]
    first = run[0]
    if entrances and entrances[0] is not run[1]:
        alike = [c for c in calls if c.left < first.entered and c.family == entrances[0].family]
        first = alike[-1] if alike else first
    between = {
        call.family
        for before, entrance in zip(run, entrances, strict=False)
        for call in _outer_calls(calls, before.left, entrance.entered)
    }
    return [first, *entrances, _closing(run, calls, between, logits)]


def _entrance(before: Call, block: Call, source: Call, calls: Sequence[Call], logits: Wire) -> Call:
    """The block itself, or, where a skip goes around its input, the last module before it that sees all of it."""
    if _all_passes(block, source, logits):
        return block
    earlier = [call for call in calls if before.left < call.entered < block.entered]
    return next(
        (call for call in reversed(earlier) if leads_to(before, call) and _all_passes(call, source, logits)),
        block,
    )


def _all_passes(call: Call, source: Call, logits: Wire) -> bool:
    """Whether the logits depend on the source through what this call read, and in no other way."""
    return source.written.node not in ancestors(logits.node, without=call.read.node)


def _outer_calls(calls: Sequence[Call], after: int, until: int) -> Run:
    """The calls that begin and end in a stretch of time, without those inside others of them."""
    within = [call for call in calls if after < call.entered and call.left < until]
    return [c for c in within if not any(o.entered < c.entered and c.left < o.left for o in within)]


def _closing(run: Run, calls: Sequence[Call], between: set[tuple[str, str, int]], logits: Wire) -> Call:
    """The first call after the last block that reads what the stream became, past what stands between blocks too."""
    last = run[-1]
    later = [call for call in calls if call.entered > last.left and leads_to(last, call)]
    for call in later:
        if call.family not in between and not _within_any(call, later, between) and _all_passes(call, run[0], logits):
            return call
    closing = next((call for call in later if call.has_weights), None)
    if closing is None:
        raise BlocksError(
            f"nothing with parameters reads the stream after {last.name}, so its end cannot be placed. Pass blocks= "
            "with modules whose outputs are the residual stream."
        )
    return closing


def _within_any(call: Call, later: Sequence[Call], families: set[tuple[str, str, int]]) -> bool:
    return any(o.family in families and o.entered < call.entered and call.left < o.left for o in later)


def _samples_axis(tensor: Tensor, module: nn.Module, samples: int) -> int:
    """0, or 1 for the (T, B, d) of a sequence-first module."""
    if tensor.ndim == 3 and tensor.shape[1] == samples:
        sequence_first = any(getattr(m, "batch_first", True) is False for m in module.modules())
        return 1 if sequence_first or tensor.shape[0] != samples else 0
    return 0


def samples_first(tensor: Tensor, tap: Tap, samples: int) -> Tensor:
    """A site with its samples along the first axis: (T, B, d) of a sequence-first module is turned."""
    if tensor.ndim == 3 and tap.samples_axis == 1:
        tensor = tensor.transpose(0, 1)
    if tensor.ndim < 2 or tensor.shape[0] != samples:
        raise BatchError(
            f"site '{tap}' has the shape {tuple(tensor.shape)} for a batch of {samples} samples; expected one row per "
            "sample. Pass blocks= with modules whose outputs keep the batch axis."
        )
    return tensor
