"""`walkback replay FILE…`: judge recorded measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkback.cli.thresholds import (
    DriftCeilingOption,
    DriftShareOption,
    ExplosionRatioOption,
    FrozenMarginOption,
    GradientFloorOption,
    thresholds_from,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("replay")(replay)


def replay(
    files: Annotated[list[Path], typer.Argument(help="Reports of walkback, or recorded audits, as JSON.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write one object per report.")] = None,
    require_all: Annotated[bool, typer.Option("--require-all", help="Unmeasured means incomplete.")] = False,
    g_norm_floor: GradientFloorOption = None,
    h_norm_explosion_ratio: ExplosionRatioOption = None,
    stability_drift_ceiling: DriftCeilingOption = None,
    frozen_acc_margin_pp: FrozenMarginOption = None,
    drift_share_ceiling: DriftShareOption = None,
) -> int:
    """Judge recorded measurements again; what a record lacks stays not measured."""
    import json

    from walkback.present.text import print_comparison
    from walkback.protocol.schema import write_whole
    from walkback.protocol.verdict import exit_status
    from walkback.watch.replay import replay as judge_files

    thresholds = thresholds_from(
        g_norm_floor,
        h_norm_explosion_ratio,
        stability_drift_ceiling,
        frozen_acc_margin_pp,
        drift_share_ceiling,
    )
    judged = judge_files(files, thresholds, require_all)
    print_comparison([entry.report for entry in judged], names=[entry.name for entry in judged])
    if json_file is not None:
        entries = [
            {"name": e.name, "source": e.source, "recorded_verdict": e.recorded_verdict} | e.report.to_dict()
            for e in judged
        ]
        write_whole(json_file, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    return exit_status([entry.report.verdict for entry in judged])
