"""How a grid looks while it is trained: one live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from walkback.lab.cli.progress import figures, left
from walkback.lab.grids.executors import Began, Elsewhere, Ended, Event, Reached
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.epochs import EpochRecord
from walkback.present.console import SafeConsole
from walkback.present.text_tables import ruled_table

Kind = tuple[str, str]
ELSEWHERE = "trained by another process, waiting"


class Board:
    """What is known of a grid under way: which runs are done, where the others are, how long it may take."""

    def __init__(self, missing: Sequence[RunConfig], finished: int, workers: int) -> None:
        self.configs = {config.run_id: config for config in missing}
        self.finished, self.workers, self.failed = finished, workers, 0
        self.epochs = dict.fromkeys(self.configs, 0)
        self.running: dict[str, EpochRecord | None] = {}
        self.waiting = dict.fromkeys(self.configs)
        self.elsewhere: set[str] = set()
        """Those of the waiting ones that another process is training."""
        self.seconds: dict[Kind, list[float]] = {}
        self.start = time.monotonic()

    @property
    def total(self) -> int:
        """All runs of the grid."""
        return self.finished + self.failed + len(self.running) + len(self.waiting)

    def hear(self, event: Event) -> None:
        """Take in what a worker said."""
        if isinstance(event, Elsewhere):
            self.running.pop(event.run_id, None)
            self.waiting[event.run_id] = None
            self.elsewhere.add(event.run_id)
            return
        self.elsewhere.discard(event.run_id)
        if isinstance(event, Began):
            self.waiting.pop(event.run_id, None)
            self.running[event.run_id], self.epochs[event.run_id] = None, event.done
        elif isinstance(event, Reached):
            record = event.epoch.record
            self.running[event.run_id], self.epochs[event.run_id] = record, record.epoch
            if record.epoch:  # before the first it is only measured
                self.seconds.setdefault(kind(self.configs[event.run_id]), []).append(record.seconds)
        else:
            self.waiting.pop(event.run_id, None)
            self.running.pop(event.run_id, None)
            self.failed += bool(event.error)
            self.finished += not event.error

    def seconds_left(self) -> float:
        """By the pace of each method so far, or of all methods where one has not been seen; 0 where none has."""
        known = [second for seconds in self.seconds.values() for second in seconds]
        if not known:
            return 0.0
        busy = 0.0
        for run_id in (*self.running, *self.waiting):
            config = self.configs[run_id]
            pace = self.seconds.get(kind(config), known)
            busy += (config.epochs - self.epochs[run_id]) * sum(pace) / len(pace)
        return busy / max(min(self.workers, len(self.running) + len(self.waiting)), 1)

    def headline(self) -> str:
        """`12 of 42 runs done, 1 failed, 2 running, 28 waiting, 1 of them for another process; 1 h 05 min left`."""
        counts = [f"{self.finished} of {self.total} runs done", f"{self.failed} failed" * bool(self.failed)]
        counts += [f"{len(self.running)} running", f"{len(self.waiting)} waiting" * bool(self.waiting)]
        counts += [f"{len(self.elsewhere)} of them for another process" * bool(self.elsewhere)]
        return "; ".join(filter(None, [", ".join(filter(None, counts)), left(self.seconds_left())]))


def kind(config: RunConfig) -> Kind:
    """Runs of one kind take about as long per epoch."""
    return config.method, config.freezing


@contextmanager
def watching(board: Board) -> Iterator[Lines | Screen]:
    """A watcher on stderr."""
    console = SafeConsole(stderr=True)
    if not console.is_terminal:
        yield Lines(board, console)
        return
    screen = Screen(board)
    with Live(get_renderable=screen.drawn, console=console, refresh_per_second=2):
        yield screen


class Lines:
    """One line per epoch, and one per run that ends."""

    def __init__(self, board: Board, console: Console) -> None:
        self.board, self.console = board, console

    def __call__(self, event: Event) -> None:
        """Say what happened."""
        self.board.hear(event)
        config = self.board.configs[event.run_id]
        if isinstance(event, Reached):
            record = event.epoch.record
            self.say(f"{config.name}  epoch {record.epoch}/{config.epochs}  {figures(record)}")
        elif isinstance(event, Elsewhere):
            self.say(f"{config.name}  {ELSEWHERE}")
        elif isinstance(event, Ended):
            self.say(f"{config.name}  {f'failed: {event.error}' if event.error else 'finished'}")
            self.say(self.board.headline())

    def say(self, line: str) -> None:
        """One line."""
        self.console.print(line, soft_wrap=True, markup=False)


class Screen:
    """The headline, a row per run that is being trained, and what was said last: fetched data, failed runs."""

    SHOWN = 5

    def __init__(self, board: Board) -> None:
        self.board = board
        self.notes: list[Text] = []

    def __call__(self, event: Event) -> None:
        """Take it in; the picture follows by itself."""
        self.board.hear(event)
        if isinstance(event, Ended) and event.error:
            name = self.board.configs[event.run_id].name
            self.notes.append(Text(f"{name} failed: {event.error}", style="red"))

    def say(self, line: str) -> None:
        """A line under the table."""
        self.notes.append(Text(line))

    def drawn(self) -> Group:
        """The picture of this moment."""
        table = ruled_table()
        for heading in ("running", "epoch", ""):
            table.add_column(Text(heading), no_wrap=heading == "epoch")
        for run_id, record in self.board.running.items():
            config = self.board.configs[run_id]
            epoch = f"{self.board.epochs[run_id]}/{config.epochs}"
            table.add_row(Text(config.name), epoch, Text("" if record is None else figures(record)))
        for run_id in sorted(self.board.elsewhere):
            table.add_row(Text(self.board.configs[run_id].name), "", Text(ELSEWHERE))
        return Group(Text(self.board.headline(), style="bold"), table, *self.notes[-self.SHOWN :])
