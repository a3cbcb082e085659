"""Where the runs of a grid are trained: worker processes of this machine.

A worker trains one run after the other through `train_or_resume`, and ends with the process that started it,
however that ends: nothing is left that trains on or holds a lock. So a grid may be killed at any moment, and
the same grid started again goes on from the last checkpoints. Two grids on one store share their work: a run that
the other is training is waited for, and taken over should the other die. Importing this imports no torch.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, Protocol

from walkback.addresses import allow
from walkback.errors import InputError, RunTaken, WalkbackError
from walkback.lab.grids.run_queue import LOOK_SECONDS, RunQueue
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.hardware import CPU, checked_word, device_of
from walkback.lab.runs.progress import EpochDone
from walkback.lab.runs.store import RunStore, StoredRun, open_store

WORKERS = 2
NICENESS = 10
"""Training gives way to whatever else the machine is used for."""


class Began(NamedTuple):
    """A run is being trained; that many of its epochs were there already."""

    run_id: str
    done: int
    epochs: int


class Reached(NamedTuple):
    """A run has ended an epoch."""

    run_id: str
    epoch: EpochDone


class Ended(NamedTuple):
    """A run is finished, or has failed with an error."""

    run_id: str
    error: str


class Elsewhere(NamedTuple):
    """A run is being trained by a process that is not of this grid, which waits for it."""

    run_id: str


Event = Began | Reached | Elsewhere | Ended
Tell = Callable[[Event], None]


class Executor(Protocol):
    """Somewhere to train."""

    def ready(self) -> AbstractContextManager[int]:
        """Be ready to train; how many runs are trained at once."""
        ...

    def refuse(self, runs: Sequence[RunConfig]) -> None:
        """Raise for the first run that cannot be trained there, as far as that is known before it is tried."""

    def execute(self, runs: Sequence[RunConfig], store: RunStore, tell: Tell) -> None:
        """Train every run to its end; `tell` hears how it goes, of each run `Ended` last and once."""


class LocalProcesses:
    """Worker processes of this machine, each with one thread."""

    def __init__(self, workers: int = WORKERS, niceness: int = NICENESS, device: str = CPU) -> None:
        if workers < 1:
            raise InputError(f"{workers} workers were asked for; expected 1 or more.")
        self.workers, self.niceness, self.device = workers, niceness, checked_word(device)

    def ready(self) -> AbstractContextManager[int]:
        """This machine is."""
        return nullcontext(self.workers)

    def refuse(self, runs: Sequence[RunConfig]) -> None:
        """The device may not be there, or not be one for a run's precision."""
        from walkback.lab.runs.mixed import refuse_precision

        device = device_of(self.device)
        for config in runs:
            refuse_precision(config, device)

    def execute(self, runs: Sequence[RunConfig], store: RunStore, tell: Tell) -> None:
        """Hand out the runs in their order; a worker that dies costs its run, and is replaced."""
        queue, known = RunQueue(runs, store), set[str]()

        def heard(event: Event) -> None:
            if isinstance(event, Elsewhere):
                queue.put_aside(event.run_id)
                if event.run_id in known:  # it is looked at again and again, and told once
                    return
                known.add(event.run_id)
            tell(event)

        with self._pool(store, min(self.workers, len(runs))) as pool:
            while _hand_out(queue, pool):
                busy = [worker.connection for worker in pool if worker.run_id]
                ready = wait(busy, LOOK_SECONDS if queue.watched else None)
                for position, worker in enumerate(pool):
                    if worker.connection in ready and not worker.pass_on(heard):
                        pool[position] = self._worker(store, position)

    @contextmanager
    def _pool(self, store: RunStore, size: int) -> Iterator[list[Worker]]:
        pool = [self._worker(store, number) for number in range(size)]
        try:
            yield pool
        finally:
            for worker in pool:
                worker.end()

    def _worker(self, store: RunStore, number: int) -> Worker:
        # Not forked: a copy of a process whose torch has threads may hang.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        places = (store.address, str(store.archive.resolve()))
        process = context.Process(target=_work, args=(theirs, *places, self.niceness, self.device, number), daemon=True)
        process.start()
        theirs.close()
        return Worker(process, ours)


def _hand_out(queue: RunQueue, pool: list[Worker]) -> bool:
    """Give every idle worker a run; whether there is anything left to wait for."""
    for worker in pool:
        if not worker.run_id and (config := queue.next()) is not None:
            worker.give(config)
    return queue.watched or any(worker.run_id for worker in pool)


class Worker:
    """One process, seen from the one that started it."""

    def __init__(self, process: SpawnProcess, connection: Connection[Any, Any]) -> None:
        self.process, self.connection = process, connection
        self.run_id = ""
        """What it trains; empty while it is idle."""

    def give(self, config: RunConfig) -> None:
        """Hand it a run."""
        self.run_id = config.run_id
        # A worker that has died is noticed when its answer is read.
        with suppress(OSError):
            self.connection.send(config.to_dict())

    def pass_on(self, tell: Tell) -> bool:
        """Tell what the worker says next; False where it has died, which ends its run."""
        try:
            event: Event = self.connection.recv()
        except (EOFError, OSError):
            self.end()
            tell(Ended(self.run_id, f"its process ended by itself, with exit status {self.process.exitcode}"))
            return False
        if isinstance(event, Ended | Elsewhere):
            self.run_id = ""
        tell(event)
        return True

    def end(self) -> None:
        """End the process; what it was training goes on from its checkpoint another time."""
        self.connection.close()
        self.process.join(0 if self.run_id and self.process.is_alive() else 1)
        self.process.kill()
        self.process.join()


def _work(connection: Connection[Any, Any], root: str, archive: str, niceness: int, device: str, number: int) -> None:
    """What a worker does: train what it is given, until there is nobody left to give."""
    # Ctrl-C reaches the whole group; the parent alone decides what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.nice(niceness)
    os.environ["OMP_NUM_THREADS"] = "1"
    store = open_store(root, archive)
    while True:
        try:
            settings = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(trained(settings, store, connection.send, device=device, number=number))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def trained(
    settings: dict[str, Any],
    store: RunStore,
    send: Tell,
    patience: float = 0.0,
    *,
    device: str = CPU,
    number: int = 0,
) -> Ended | Elsewhere:
    """Train one run; whatever goes wrong with it is the run's error and nobody else's.

    A run that another process is still training after `patience` seconds is left to that one. Of several GPUs, the
    worker of that number takes its own.
    """
    from walkback.lab.runs.assembly import keep_dataset
    from walkback.lab.runs.train import train_or_resume

    keep_dataset()
    allow(settings["method"], settings["architecture"], settings["data"])  # by whoever started the grid
    config = RunConfig.from_dict(settings)
    try:
        if not _is_free(store.run(config), patience):
            return Elsewhere(config.run_id)
        train_or_resume(config, store, _Reporter(config.run_id, send), device_of(device, number))
    except RunTaken:  # in the moment since
        return Elsewhere(config.run_id)
    except WalkbackError as error:
        return Ended(config.run_id, str(error))
    except Exception as error:
        return Ended(config.run_id, f"{type(error).__name__}: {error}")
    finally:
        store.run(config).forget()
    return Ended(config.run_id, "")


def _is_free(stored: StoredRun, patience: float) -> bool:
    """Whether nobody trains the run, at the latest after so many seconds."""
    deadline = time.monotonic() + patience
    while stored.taken:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


class _Reporter:
    """Sends a run's progress to the process that watches."""

    def __init__(self, run_id: str, send: Tell) -> None:
        self.run_id, self.send = run_id, send

    def started(self, done: int, epochs: int) -> None:
        """Where the run is."""
        self.send(Began(self.run_id, done, epochs))

    def within(self, epoch: int, share: float) -> None:
        """Nothing: the display has a line per run, not a bar."""

    def epoch_done(self, event: EpochDone) -> None:
        """The epoch's figures."""
        self.send(Reached(self.run_id, event))
