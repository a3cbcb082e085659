"""`walkback watch TRACE…`: running traces in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from walkback.present.traces import Traced
    from walkback.watch.trace_line import TraceLine


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("watch", epilog="Exit status: 0, whatever the runs do; 2 an error; 130 on Ctrl-C.")(watch)


def watch(
    traces: Annotated[list[Path], typer.Argument(help="Traces of a monitor or of runs, or folders of runs.")],
    once: Annotated[bool, typer.Option("--once", help="Show them as they are now, and end.")] = False,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How often to look again.")] = 2.0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw them in a figure, and end.")] = None,
) -> int:
    """Show runs while they are trained: size of stream and gradient, accuracy, and what has fired."""
    from walkback.cli.output import output, require_writable
    from walkback.present.traces import traces_blocks

    console = output()
    require_writable([plot], traces)
    if plot is not None:
        _plot(_read(traces), plot)
    if once or plot is not None or not console.is_terminal:
        console.print(traces_blocks(_read(traces), console.width))
        return 0
    return _live(traces, every)


def _live(paths: list[Path], every: float) -> int:
    """Until Ctrl-C."""
    import time

    from rich.live import Live

    from walkback.cli.output import output
    from walkback.present.traces import traces_blocks

    console = output()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(traces_blocks(_read(paths), console.width), refresh=True)
            time.sleep(every)


def _read(paths: list[Path]) -> list[Traced]:
    """The traces as they are now; a line that is being written is left for the next look."""
    import warnings

    from walkback.errors import WalkbackWarning
    from walkback.present.traces import Traced
    from walkback.protocol.schema import reading
    from walkback.watch.summary import moments_of, summary_of
    from walkback.watch.trace import named_runs
    from walkback.watch.trace_file import trace_in

    found = []
    for path in map(trace_in, paths):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WalkbackWarning)
            with reading(path):
                runs = named_runs(path)
                _check_measured([line for named in runs for line in named.run.lines], path)
                courses = [(named, moments_of(named.run.lines)) for named in runs]
        found += [Traced(named.name, moments, summary_of(moments), named.remark) for named, moments in courses]
    return found


def _check_measured(lines: list[TraceLine], path: Path) -> None:
    """A file whose lines hold no figure at all is no trace."""
    from walkback.errors import RecordError
    from walkback.watch.trace import is_trace

    if lines and not any(is_trace(line.model_dump(exclude_none=True, exclude_defaults=True)) for line in lines):
        raise RecordError(f"{path} is no trace: its lines hold neither norms nor gradients. Give what a monitor wrote.")


def _plot(traces: list[Traced], path: Path) -> None:
    from walkback.errors import InputError
    from walkback.present.figures.style import save
    from walkback.present.figures.traces import draw

    if not traces:
        raise InputError("there is nothing to draw: no trace holds a measurement yet.")
    save(draw(traces), path)
