"""A grid as tables: what of it is done and what is missing; and what the audit of it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from walkback.cli.output import output
from walkback.present.comparison import comparison_blocks
from walkback.present.method_names import in_shown_names, recorded_as, rows_of
from walkback.present.network import Network
from walkback.present.text_tables import ruled_table
from walkback.protocol.records import DiagnosticReport

if TYPE_CHECKING:
    from walkback.lab.grids.grid import GridConfig
    from walkback.lab.runs.store import RunStore


def print_list(grids: Mapping[str, GridConfig], store: RunStore) -> None:
    """One row for each method and seed, then how much is done."""
    from walkback.lab.grids.grid import unique_runs

    for name, grid in grids.items():
        table = ruled_table()
        for heading in ("method", "seed", "run", "", "frozen baseline", ""):
            table.add_column(Text(heading), no_wrap=True)
        for cell in grid.cells():
            both = [(store.run(config), config) for config in cell.runs]
            words = [word for run, config in both for word in (run.run_id, _progress(run, config.epochs))]
            table.add_row(Text(cell.label), str(cell.config.seed), *words)
        output().print(Text(f"audit_{name}", style="bold"), table, Text(), sep="\n")
    runs = unique_runs(list(grids.values()))
    done = sum(store.run(config).finished for config in runs)
    output().print(f"{done} of {len(runs)} runs finished, {len(runs) - done} missing")


def _progress(run: Any, epochs: int) -> str:
    if run.finished:
        return "finished"
    trace = run.trace()
    return f"{run.state.value}, {trace[-1].epoch} of {epochs} epochs" if trace else "missing"


def print_audit(audit: Mapping[str, Any], path: Path, console: Console) -> None:
    """The table of reports, what the seeds agree on, the runs that failed, and where it is kept."""
    from walkback.lab.studies.audit_of_grid import NOT_FINISHED

    console.print(Text(f"audit {audit['name']}", style="bold"))
    rows = rows_of(audit)
    reports = [DiagnosticReport.from_dict(report) for report in audit["reports"]]
    networks = in_shown_names([Network(report, options=rows.get(report.method_name)) for report in reports])
    shown = [network.report for network in networks]
    for block in comparison_blocks(shown, width=console.width, recorded=recorded_as(networks)):
        console.print(block)
    for row in audit["runs"]:
        for what in ("error", "baseline_error"):
            if row.get(what):
                of = "" if what == "error" else " (frozen baseline)"
                word = "missing" if row[what] == NOT_FINISHED else "failed"
                console.print(Text(f"{word}: {row['label']} {row['seed']}{of}: {row[what]}", style="red"))
    console.print(f"saved to {path}\n")
