"""`walkback figure NAME`: figures for papers, from what is on record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkback.cli.options import ResultsOption, RunsOption


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("figure", epilog="Exit status: 0 drawn; 2 an error.")(figure)


def figure(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="headline, audit, temporal, penalty, sensitivity, sites, or your own (name or module:object).",
        ),
    ],
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET…]",
            help="What to plot: the same targets as for `walkback report`. For sensitivity: the study's JSON. "
            "For temporal: one column per target. "
            "Default: what is on record.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A .png, .svg or .pdf. Default: NAME.png.")
    ] = None,
    results: ResultsOption = Path("results"),
    runs: RunsOption = None,
) -> int:
    """Plot a figure from recorded results; if runs are missing, name the command that trains them."""
    from walkback.cli.output import require_writable
    from walkback.lab.present.figures import figure_named
    from walkback.lab.runs.store import open_store
    from walkback.present.figures import FIGURES
    from walkback.present.figures.style import save, writable

    FIGURES.named(name)  # refused before anything is read
    target = writable(out or Path(f"{name.rpartition(':')[2]}.png"))
    require_writable([target], [*(targets or []), results, *open_store(runs, results / "runs").folders])
    typer.echo(f"written: {save(figure_named(name, targets or [], results, runs), target)}")
    return 0
