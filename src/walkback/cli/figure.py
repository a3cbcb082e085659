"""`walkback figure NAME`: figures for papers, from what is on record."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from walkback.addresses import is_address
from walkback.cli.options import ResultsOption, RunsOption
from walkback.errors import InputError


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

    _refuse_swapped(name, targets or [], list(FIGURES))
    FIGURES.named(name)  # refused before anything is read
    target = writable(out or Path(f"{name.rpartition(':')[2]}.png"))
    require_writable([target], [*(targets or []), results, *open_store(runs, results / "runs").folders])
    typer.echo(f"written: {save(figure_named(name, targets or [], results, runs), target)}")
    return 0


def _refuse_swapped(name: str, targets: list[str], figures: list[str]) -> None:
    """Raise where a figure is named among the targets, and what stands in its place is none."""
    found = next((target for target in targets if target in figures), None)
    if found is None or name in figures or is_address(name):
        return
    others = [name, *(target for target in targets if target != found)]
    raise InputError(
        f"NAME is {name!r}, which is no figure, and {found!r} stands among the targets: they look swapped. "
        f"Run: walkback figure {shlex.join([found, *others])}"
    )
