"""The thresholds as command-line options, shared by the verbs that judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from walkback.protocol.thresholds import DiagnosticThresholds

PANEL = "Thresholds"

GradientFloorOption = Annotated[
    float | None, typer.Option("--g-norm-floor", help="(b) fires below this.", rich_help_panel=PANEL)
]
ExplosionRatioOption = Annotated[
    float | None,
    typer.Option("--h-norm-explosion-ratio", help="(a) fires above this.", rich_help_panel=PANEL),
]
DriftCeilingOption = Annotated[
    float | None,
    typer.Option("--stability-drift-ceiling", help="(c) fires above this.", rich_help_panel=PANEL),
]
FrozenMarginOption = Annotated[
    float | None, typer.Option("--frozen-acc-margin-pp", help="(d) fires below this.", rich_help_panel=PANEL)
]
OtherMarginOption = Annotated[
    float | None,
    typer.Option("--frozen-margin", help="(d) fires below this in another unit than accuracy.", rich_help_panel=PANEL),
]
DriftShareOption = Annotated[
    float | None,
    typer.Option("--drift-share-ceiling", help="Judge (c) by the drift share instead.", rich_help_panel=PANEL),
]


def thresholds_from(
    g_norm_floor: float | None,
    h_norm_explosion_ratio: float | None,
    stability_drift_ceiling: float | None,
    frozen_acc_margin_pp: float | None,
    frozen_margin: float | None,
    drift_share_ceiling: float | None,
) -> DiagnosticThresholds | None:
    """The thresholds that were given, on top of the published ones; None where none was."""
    from walkback.protocol.thresholds import DiagnosticThresholds

    given = {name: value for name, value in locals().items() if value is not None and name != "DiagnosticThresholds"}
    return DiagnosticThresholds(**given) if given else None
