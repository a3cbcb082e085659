"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunsOption = Annotated[
    str | None,
    typer.Option(
        "--runs",
        metavar="PLACE",
        help="The directory of runs, or an address such as s3://bucket/runs. Default: $WALKBACK_RUNS, or runs.",
    ),
]
ResultsOption = Annotated[Path, typer.Option("--results", metavar="DIR", help="The directory of recorded results.")]

FullOption = Annotated[bool, typer.Option("--full", help="Print the whole report, not its ten lines.")]
RequireAllOption = Annotated[
    bool,
    typer.Option("--require-all", help="The outcome is incomplete unless every diagnostic was measured."),
]
