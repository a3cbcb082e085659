"""Which tensors of a network are its residual stream: the sites h_0 … h_L, in any nn.Module.

A network is watched during one small forward pass. Modules of one type and one depth in the tree that hand
a tensor on from each to the next are a chain of blocks. Where each block's output is the next one's input,
the sites are the first block's input and every block's output. Where something happens in between (an
activation function, a skip added outside the block), the sites are the blocks' inputs and the input of
whatever comes after the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, BlocksError
from walkback.protocol.batches import Batch
from walkback.registry import did_you_mean

Blocks = str | nn.Module | Sequence[str] | Sequence[nn.Module] | None


@dataclass(frozen=True)
class Tap:
    """Where one site is read: the input or the output of a module."""

    name: str
    module: nn.Module
    end: Literal["input", "output"]

    def __str__(self) -> str:
        return self.name if self.end == "output" else f"input of {self.name}"


@dataclass(frozen=True)
class Chain:
    """The blocks of a network in the order of their calls, and where its sites are read."""

    blocks: tuple[str, ...]
    taps: tuple[Tap, ...]

    @property
    def pattern(self) -> str:
        """The blocks as one `blocks=` argument: a glob where one fits."""
        return _glob(self.blocks)


@dataclass(frozen=True)
class Call:
    """One call of a module during the watched forward pass."""

    name: str
    module: nn.Module
    order: int
    read: Tensor
    written: Tensor

    @property
    def depth(self) -> int:
        return self.name.count(".")


def find_chain(model: nn.Module, batch: Batch, blocks: Blocks = None) -> Chain:
    """The chain of blocks: the named ones, or the longest that the structure shows."""
    calls, logits = watch_forward(model, batch)
    if blocks is not None:
        chosen = given_modules(model, blocks)
        return _chain([c for c in calls if c.module in chosen], calls, sorted(chosen.values()))
    candidates = _candidates(calls, batch, logits)
    if not candidates:
        raise BlocksError(
            f"no chain of blocks was found in {type(model).__name__}: no two modules of one type hand a tensor on. "
            "Pass blocks=, e.g. blocks='layers.*' or a list of modules."
        )
    return _chain(_longest(candidates), calls, [])


@torch.enable_grad()
def watch_forward(model: nn.Module, batch: Batch) -> tuple[list[Call], Tensor]:
    """Every module call of one forward pass, in the order of entry, and the logits."""
    calls: list[Call] = []
    with _graph_from_parameters(model), _watching(model, calls):
        logits = batch.call(model)
    return sorted(calls, key=lambda call: call.order), logits


@contextmanager
def _graph_from_parameters(model: nn.Module) -> Iterator[None]:
    """Let the graph show what is computed from what, for as long as the pass is watched."""
    wanted = [(p, p.requires_grad) for p in model.parameters() if p.is_floating_point()]
    for parameter, _ in wanted:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter, requires_grad in wanted:
            parameter.requires_grad_(requires_grad)


@contextmanager
def _watching(model: nn.Module, calls: list[Call]) -> Iterator[None]:
    entered: dict[nn.Module, list[tuple[int, Tensor | None]]] = {}
    clock = iter(range(10**9))

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entered.setdefault(module, []).append((next(clock), stream_tensor((args, kwargs))))

    def leave(name: str, module: nn.Module, output: Any) -> None:
        order, read = entered[module].pop()
        written = stream_tensor(output)
        if read is not None and written is not None:
            calls.append(Call(name, module, order, read, written))

    handles = []
    try:
        for name, module in model.named_modules():
            if name and any(True for _ in module.parameters()):
                handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                handles.append(
                    module.register_forward_hook(lambda m, _args, out, name=name: leave(name, m, out))
                )
        yield
    finally:
        for handle in handles:
            handle.remove()


def stream_tensor(value: Any) -> Tensor | None:
    """The first floating tensor in what a block takes or returns."""
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else None
    if isinstance(value, Mapping):
        return stream_tensor(tuple(value.values()))
    if isinstance(value, tuple | list):
        return next((t for t in map(stream_tensor, value) if t is not None), None)
    return None


def _candidates(calls: Sequence[Call], batch: Batch, logits: Tensor) -> list[list[Call]]:
    """Maximal chains: handed on directly, or, where there are none, through other operations."""
    families: dict[tuple[type, int], list[Call]] = {}
    for call in calls:
        families.setdefault((type(call.module), call.depth), []).append(call)
    for linked in (_same_tensor, _computed_from):
        chains = [run for family in families.values() for run in _runs(family, linked)]
        trimmed = [_without_stem_and_head(run, batch, logits) for run in chains if len(run) > 1]
        found = [run for run in trimmed if run]
        if found:
            return found
    return []


def _runs(family: Sequence[Call], linked: Any) -> Iterator[list[Call]]:
    run = [family[0]]
    for call in family[1:]:
        if linked(run[-1].written, call.read):
            run.append(call)
        else:
            yield run
            run = [call]
    yield run


def _same_tensor(written: Tensor, read: Tensor) -> bool:
    return written is read or (written.shape == read.shape and written.data_ptr() == read.data_ptr())


def _computed_from(written: Tensor, read: Tensor) -> bool:
    """Whether `read` was computed from `written`, by the autograd graph."""
    goal = written.grad_fn
    seen, frontier = set(), [read.grad_fn]
    while frontier and goal is not None:
        node = frontier.pop()
        if node is goal:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            frontier.extend(parent for parent, _ in node.next_functions)
    return False


def _without_stem_and_head(run: list[Call], batch: Batch, logits: Tensor) -> list[Call]:
    """Leave out a first module that embeds the raw input and a last one that writes the logits."""
    raw = {x.data_ptr() for x in batch.tensors()}
    if run[0].read.data_ptr() in raw and run[0].read.shape != run[0].written.shape:
        run = run[1:]
    return run[:-1] if run and _same_tensor(run[-1].written, logits) else run


def _longest(candidates: list[list[Call]]) -> list[Call]:
    """The chain with the most blocks; of nested ones as long, the outer; else the choice is the caller's."""
    longest = max(len(run) for run in candidates)
    best = [run for run in candidates if len(run) == longest]
    outer = [run for run in best if not any(_inside(run, other) for other in best if other is not run)]
    if len(outer) > 1:
        listed = "; ".join(f"blocks={_glob([c.name for c in run])!r} ({len(run)} blocks)" for run in outer)
        raise BlocksError(f"several chains of blocks are as long as each other. Pass one of: {listed}.")
    return outer[0]


def _inside(run: list[Call], other: list[Call]) -> bool:
    return any(run[0].name.startswith(call.name + ".") for call in other)


def _chain(run: list[Call], calls: Sequence[Call], expected: Sequence[str]) -> Chain:
    missing = [name for name in expected if name not in {call.name for call in run}]
    if missing or not run:
        raise BlocksError(
            f"the forward pass never calls {', '.join(missing) or 'the blocks'} with a floating tensor; expected "
            "blocks that the residual stream passes through. Leave them out of blocks=."
        )
    names = tuple(call.name for call in run)
    if all(_same_tensor(a.written, b.read) for a, b in zip(run, run[1:], strict=False)):
        outputs = [Tap(call.name, call.module, "output") for call in run]
        return Chain(names, (Tap(run[0].name, run[0].module, "input"), *outputs))
    after = _closing(run[-1], calls)
    return Chain(names, tuple(Tap(call.name, call.module, "input") for call in [*run, after]))


def _closing(last: Call, calls: Sequence[Call]) -> Call:
    """The first module after the last block that reads what the stream became."""
    for call in calls:
        later = call.order > last.order and not call.name.startswith(last.name + ".")
        if later and _computed_from(last.written, call.read):
            return call
    raise BlocksError(
        f"nothing with parameters reads the stream after {last.name}, so its end cannot be placed. Pass blocks= with "
        "modules whose outputs are the residual stream."
    )


def given_modules(model: nn.Module, blocks: Blocks) -> dict[nn.Module, str]:
    """The modules that a `blocks=` argument names, with their dotted names."""
    names = {module: name for name, module in model.named_modules() if name}
    if isinstance(blocks, nn.ModuleList | nn.Sequential):
        blocks = list(blocks)
    items = [blocks] if isinstance(blocks, str | nn.Module) else list(blocks or [])
    chosen: dict[nn.Module, str] = {}
    for item in items:
        found = _named(item, names) if isinstance(item, str) else {item: names.get(item, "")}
        if not found or "" in found.values():
            what = repr(item) if isinstance(item, str) else f"the {type(item).__name__} given"
            near = did_you_mean(item, names.values()) if isinstance(item, str) and len(names) < 40 else ""
            raise BlocksError(f"blocks={what} matches no module of {type(model).__name__}. {near}".strip())
        chosen |= found
    if not chosen:
        raise BlocksError("blocks= is empty; name at least one block, or leave it out to have them found.")
    return chosen


def _named(pattern: str, names: Mapping[nn.Module, str]) -> dict[nn.Module, str]:
    """Modules whose dotted name matches component by component, so that `layer.*` stops at the layers."""
    parts = pattern.split(".")

    def matches(name: str) -> bool:
        pieces = name.split(".")
        return len(pieces) == len(parts) and all(map(fnmatchcase, pieces, parts))

    return {module: name for module, name in names.items() if matches(name)}


def _glob(names: Iterable[str]) -> str:
    split = [name.split(".") for name in dict.fromkeys(names)]
    if len({len(parts) for parts in split}) > 1:
        return ",".join(".".join(parts) for parts in split)
    return ".".join(parts[0] if len(set(parts)) == 1 else "*" for parts in zip(*split, strict=True))


def samples_first(tensor: Tensor, tap: Tap, samples: int) -> Tensor:
    """A site with its samples along the first axis: (T, B, d) of a sequence-first module is turned."""
    if tensor.ndim == 3 and tensor.shape[1] == samples:
        sequence_first = any(getattr(m, "batch_first", True) is False for m in tap.module.modules())
        if sequence_first or tensor.shape[0] != samples:
            tensor = tensor.transpose(0, 1)
    if tensor.ndim < 2 or tensor.shape[0] != samples:
        raise BatchError(
            f"site '{tap}' has the shape {tuple(tensor.shape)} for a batch of {samples} samples; expected one row per "
            "sample. Pass blocks= with modules whose outputs keep the batch axis."
        )
    return tensor
