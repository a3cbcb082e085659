"""`walkback watch TRACE…`: running traces in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from walkback.present.traces import Traced
    from walkback.watch.follow import TraceFollower


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("watch", epilog="Exit status: 0, whatever the runs do; 2 an error; 130 on Ctrl-C.")(watch)


def watch(
    traces: Annotated[list[Path], typer.Argument(help="Traces of a monitor or of runs, or directories of runs.")],
    once: Annotated[bool, typer.Option("--once", help="Show them once, and exit.")] = False,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How often to look again.")] = 2.0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Save a figure of them, and exit.")] = None,
) -> int:
    """Follow runs while they train: norms of hidden states and gradients, accuracy, what has fired."""
    from walkback.cli.output import output, require_writable
    from walkback.present.traces import traces_blocks

    console = output()
    require_writable([plot], traces)
    followed = _followed(traces)
    if plot is not None:
        _plot(_look(followed, to_the_end=True), plot)
    if once or plot is not None or not console.is_terminal:
        console.print(traces_blocks(_look(followed, to_the_end=True), console.width))
        return 0
    return _live(followed, every)


def _live(followed: list[TraceFollower], every: float) -> int:
    """Until Ctrl-C."""
    import time

    from rich.live import Live

    from walkback.cli.output import output
    from walkback.present.traces import traces_blocks

    console = output()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(traces_blocks(_look(followed), console.width), refresh=True)
            time.sleep(every)


def _followed(paths: list[Path]) -> list[TraceFollower]:
    from walkback.watch.follow import TraceFollower
    from walkback.watch.trace_file import trace_in

    return [TraceFollower(trace_in(path)) for path in paths]


def _look(followed: list[TraceFollower], to_the_end: bool = False) -> list[Traced]:
    """The traces as they are now; only lines that were not there at the last look are read."""
    import warnings

    from walkback.errors import WalkbackWarning
    from walkback.present.traces import Traced
    from walkback.protocol.schema import naming_source
    from walkback.watch.summary import summary_of

    found = []
    for trace in followed:
        with warnings.catch_warnings(), naming_source(trace.path):
            warnings.simplefilter("ignore", WalkbackWarning)
            runs = trace.look(to_the_end)
            trace.check_measured()
        found += [Traced(each.name, each.run.trail, summary_of(each.run.trail), each.remark) for each in runs]
    return found


def _plot(traces: list[Traced], path: Path) -> None:
    from walkback.errors import InputError
    from walkback.present.figures.style import save
    from walkback.present.figures.traces import plot

    if not traces:
        raise InputError("there is nothing to draw: no trace holds a measurement yet.")
    save(plot(traces), path)
