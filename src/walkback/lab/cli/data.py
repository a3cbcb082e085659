"""`walkback lab data`: which data sets are here, and fetching those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkback.addresses import allow
from walkback.cli.output import output
from walkback.lab.registry import DATASETS

data = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the verb and its two actions."""
    app.add_typer(data, name="data", help="List the data sets, or fetch one.")


@data.command("list")
def list_() -> int:
    """List the data sets: cached, missing, corrupt, or generated on the fly."""
    from rich.table import Table

    from walkback.lab.zoo.datasets import sources, status

    table = Table("name", "state", "size", "file", "sources", box=None, header_style="bold")
    for name, _ in DATASETS.loaded():
        found = status(name)
        size = f"{found.size / 1e6:.0f} MB" if found.size else ""
        table.add_row(name, found.state.value, size, str(found.where or ""), ", ".join(sources(name)))
    output().print(table)
    return 0


@data.command("fetch")
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Data sets to fetch.")],
    source: Annotated[
        str | None, typer.Option(help="Where to fetch from; `walkback lab data list` names the sources.")
    ] = None,
    path: Annotated[Path | None, typer.Option(help="Use a local copy instead of downloading.")] = None,
) -> int:
    """Fetch data sets into the cache, and verify their checksums."""
    from walkback.lab.zoo.datasets import fetch as obtain

    for name in names:
        allow(name)
        DATASETS.require(name)  # all of them, before the first is fetched
    for name in names:
        found = obtain(name, source, path=path, progress=lambda line: typer.echo(line, err=True))
        where = f" at {found.where}" if found.where else ""
        typer.echo(f"{name}: {found.state.value}{where}")
    return 0
