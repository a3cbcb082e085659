"""How training looks while it goes on: a bar on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.progress import EpochDone, Progress
from walkback.present.console import SafeConsole
from walkback.present.numbers import percent


@contextmanager
def watching(name: str) -> Iterator[Progress]:
    """A watcher that shows the run on stderr."""
    console = SafeConsole(stderr=True)
    if not console.is_terminal:
        yield Lines(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    console.print(name)
    with Bar(*columns, console=console) as bar:
        yield OnBar(bar)


class Lines:
    """One line per epoch."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def started(self, done: int, epochs: int) -> None:
        """Nothing to say before the first epoch is done."""

    def within(self, epoch: int, share: float) -> None:
        """Nothing to say in between."""

    def epoch_done(self, event: EpochDone) -> None:
        """The epoch's figures."""
        line = f"epoch {event.record.epoch}/{event.epochs}  {figures(event.record)}  {left(event.seconds_left)}"
        self.console.print(line, soft_wrap=True)


class OnBar:
    """A bar that moves with every few batches."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.task = bar.add_task("loading", figures="")

    def started(self, done: int, epochs: int) -> None:
        """Set the bar to where the run is."""
        self.bar.update(self.task, total=max(epochs, 1), completed=done, description=f"epoch {done}/{epochs}")

    def within(self, epoch: int, share: float) -> None:
        """Move on."""
        self.bar.update(self.task, completed=epoch - 1 + share)

    def epoch_done(self, event: EpochDone) -> None:
        """The epoch's figures beside the bar."""
        record = event.record
        self.bar.update(
            self.task,
            completed=record.epoch,
            description=f"epoch {record.epoch}/{event.epochs}",
            figures=f"{figures(record)}  {left(event.seconds_left)}",
        )


def figures(record: EpochRecord) -> str:
    """Accuracy, ‖h_L‖ and ‖g_L‖, and which diagnostics fired."""
    parts = [f"acc {percent(record.accuracy)}"]
    if record.residual_norms is not None and record.bp_grad_norms is not None:
        parts += [f"‖h_L‖ {record.residual_norms[-1]:.3g}", f"‖g_L‖ {record.bp_grad_norms[-1]:.3g}"]
    if record.fired:
        parts.append(" ".join(f"({letter})" for letter in record.fired))
    return "  ".join(parts)


def left(seconds: float) -> str:
    """The time left, in the unit that suits it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    return f"{shown} left" if seconds >= 1 else ""
