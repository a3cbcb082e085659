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
        help="The directory of runs, or an address such as s3://bucket/runs. Default: $WALKBACK_RUNS, or ./runs.",
    ),
]
ResultsOption = Annotated[Path, typer.Option("--results", metavar="DIR", help="The directory of recorded results.")]

FullOption = Annotated[bool, typer.Option("--full", help="Print every number, not only the ten-line report.")]
RequireAllOption = Annotated[
    bool,
    typer.Option(
        "--require-all", help="If any diagnostic was not measured, the outcome is incomplete (exit status 3)."
    ),
]
SarifOption = Annotated[
    Path | None,
    typer.Option(
        "--sarif",
        metavar="FILE",
        help="Write what fires and what is missing as SARIF 2.1.0 to this file, for code-review tools.",
    ),
]
