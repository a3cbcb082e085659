"""Where a run is trained, and in which precision, on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

WHERE = "Where it is trained"
DeviceOption = Annotated[
    str,
    typer.Option(
        help="auto, cpu, cuda, cuda:1 or mps; auto uses a GPU if there is one.",
        rich_help_panel=WHERE,
    ),
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        help="Precision of training: fp32, bf16 or fp16. Default: fp32. Each precision is a separate run.",
        rich_help_panel=WHERE,
    ),
]
