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
        help="The folder of runs, or an address such as s3://bucket/runs. Default: $WALKBACK_RUNS, or runs.",
    ),
]
ResultsOption = Annotated[Path, typer.Option("--results", metavar="DIR", help="The folder of recorded results.")]
