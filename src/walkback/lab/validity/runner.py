"""Networks made one after the other, in several processes, each written down as soon as it is finished."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path

from walkback.errors import InputError, WalkbackError
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.packed import packed_file, read_packed, write_packed
from walkback.lab.validity.record import NetworkRecord, load
from walkback.lab.validity.split import Half, halves, quota

Told = Callable[[str], None]
NICENESS = 10


@dataclass(frozen=True)
class Folder:
    """Where the records of a bench are: `HALF/CONDITION/ID.json` as they are made, and packed as they are committed."""

    root: Path
    packed: Path | None = None
    """The directory of the packed ones; where a network is in both, the loose one counts."""
    halves: tuple[Half, ...] = ("fit", "held")
    """Those that may be looked into; the others are refused."""

    def path(self, half: Half, config: NetworkConfig) -> Path:
        """The file of one network."""
        return self.root / half / config.condition / f"{config.id}.json"

    def record(self, half: Half, config: NetworkConfig) -> NetworkRecord | None:
        """The record of a network; None where it was not made yet, or by another version."""
        if half not in self.halves:
            raise InputError(f"the records of the {half} half are not to be looked into here.")
        path = self.path(half, config)
        try:
            if path.is_file():
                return load(path)
        except WalkbackError:
            pass
        return self._packed(half, config.condition).get(config.id)

    def _packed(self, half: Half, condition: str) -> dict[str, NetworkRecord]:
        return {} if self.packed is None else read_packed(packed_file(self.packed, half, condition))

    def records(self, half: Half, condition: str) -> Iterator[NetworkRecord]:
        """Those that are what they should be, in the order of the split, up to the quota."""
        counted = 0
        for config in halves()[half].get(condition, ()):
            found = self.record(half, config)
            if found is not None and found.truth.holds and counted < quota(condition, half):
                counted += 1
                yield found

    def pack(self, half: Half, conditions: Sequence[str]) -> list[Path]:
        """Put loose records into the packed files, in the order of the split; conditions without any stay as they are.

        Networks that are not what they should be are packed too: they tell a run that goes on not to make them again.
        """
        if self.packed is None:
            return []
        written = []
        for condition in conditions:
            configs = halves()[half].get(condition, ())
            if any(self.path(half, config).is_file() for config in configs):
                found = [record for config in configs if (record := self.record(half, config)) is not None]
                written.append(write_packed(packed_file(self.packed, half, condition), found))
        return written


@dataclass
class Progress:
    """How far a condition is."""

    condition: str
    wanted: int
    as_made: int = 0
    """Networks that are what they should be."""
    otherwise: int = 0
    """Networks that are not, and were replaced."""
    failed: list[str] = field(default_factory=list)
    waiting: list[NetworkConfig] = field(default_factory=list)

    def next_ones(self, under_way: int) -> list[NetworkConfig]:
        """The networks to hand out now, so that those made and those under way come to what is wanted."""
        count = max(0, self.wanted - self.as_made - under_way)
        chosen, self.waiting = self.waiting[:count], self.waiting[count:]
        return chosen


def progress_of(folder: Folder, half: Half, condition: str, limit: int | None = None) -> Progress:
    """What is there of a condition and what is missing; `limit` asks for fewer than the quota."""
    wanted = quota(condition, half) if limit is None else min(limit, quota(condition, half))
    found = Progress(condition, wanted)
    for config in halves()[half].get(condition, ()):
        record = folder.record(half, config)
        if record is None:
            found.waiting.append(config)
        elif record.truth.holds:
            found.as_made += 1
        else:
            found.otherwise += 1
    return found


def write_network(config: NetworkConfig, path: Path) -> bool:
    """Make a network and write its record, whole or not at all; whether it is what it should be."""
    from walkback.lab.validity.making import make

    record = make(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    record.save(path)
    return record.truth.holds


def run_half(
    folder: Folder, half: Half, conditions: Sequence[str], workers: int, tell: Told, limit: int | None = None
) -> list[Progress]:
    """Make what a half lacks; networks that are not what they should be are replaced by spares while there are any.

    A killed run goes on where it was: what is written is not made again. Nothing of a network is told but whether it
    is what it should be.
    """
    states = [progress_of(folder, half, name, limit) for name in conditions]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_started)
    try:
        _make_all(pool, states, folder, half, tell)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # whoever interrupts it need not wait for what was handed out
    return states


def _started() -> None:
    """In a worker: give way to others, and end with the process that started it, however that ends."""
    os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _make_all(pool: ProcessPoolExecutor, states: Sequence[Progress], folder: Folder, half: Half, tell: Told) -> None:
    pending: dict[Future[bool], tuple[Progress, NetworkConfig]] = {}
    while True:
        _submit(pool, pending, states, folder, half)
        if not pending:
            return
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            state, config = pending.pop(future)
            _finish(future, state, config)
            made = f"{state.as_made} of {state.wanted}, {state.otherwise} replaced, {len(state.failed)} failed"
            tell(f"{half} {state.condition}: {made}")


def _submit(
    pool: ProcessPoolExecutor,
    pending: dict[Future[bool], tuple[Progress, NetworkConfig]],
    states: Sequence[Progress],
    folder: Folder,
    half: Half,
) -> None:
    """Hand out as many networks of each condition as it still lacks, those under way counted."""
    for state in states:
        under_way = sum(one is state for one, _ in pending.values())
        for config in state.next_ones(under_way):
            pending[pool.submit(write_network, config, folder.path(half, config))] = state, config


def _finish(future: Future[bool], state: Progress, config: NetworkConfig) -> None:
    error = future.exception()
    if error is not None:
        state.failed.append(f"{config.id}: {type(error).__name__}: {error}")
    elif future.result():
        state.as_made += 1
    else:
        state.otherwise += 1
