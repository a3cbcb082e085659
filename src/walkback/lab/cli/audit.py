"""`walkback lab audit`: train the missing runs of a grid, judge all runs, and record the audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkback.cli.options import ResultsOption, RunsOption
from walkback.cli.output import output
from walkback.lab.cli.grid_training import CpusOption, GpusOption, RayOption, WorkersOption, executor_from
from walkback.lab.cli.many_values import ManyValues
from walkback.lab.cli.place import DeviceOption, PrecisionOption
from walkback.lab.grids.presets import PRESETS
from walkback.lab.runs.hardware import AUTO

if TYPE_CHECKING:
    from walkback.lab.grids.executors import Executor
    from walkback.lab.grids.grid import GridConfig
    from walkback.lab.runs.store import RunStore

GRID = "Grid"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    epilog = "Exit status: 0 all trustworthy, 1 a walk-back among them, 3 incomplete, 2 an error or a failed run."
    app.command("audit", cls=ManyValues, epilog=epilog)(audit)


def audit(
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"One of the recorded grids: {', '.join(PRESETS)}, or all.",
            rich_help_panel=GRID,
        ),
    ] = None,
    architecture: Annotated[
        str | None, typer.Option("--arch", help="resmlp, vit_mini, …", rich_help_panel=GRID)
    ] = None,
    data: Annotated[str | None, typer.Option(help="cifar10, digits, …", rich_help_panel=GRID)] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME…",
            help="Methods, optionally with options: bp dfa:penalty=0.01,credit_norm=none. See "
            "`walkback lab zoo --options`.",
            rich_help_panel=GRID,
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option(metavar="N…", help="Default: 42 123 456.", rich_help_panel=GRID)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Default: 30.", rich_help_panel=GRID)] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE…",
            help="Any other setting of every run, such as arch.width=512 or learning_rate=0.003.",
            rich_help_panel=GRID,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the results. Default: from architecture and width.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List finished and missing runs; train nothing.")] = (False),
    untrained: Annotated[
        bool, typer.Option("--no-train", help="Judge the finished runs; list the others as missing.")
    ] = False,
    precision: PrecisionOption = None,
    device: DeviceOption = AUTO,
    workers: WorkersOption = None,
    ray: RayOption = None,
    cpus_per_run: CpusOption = None,
    gpus_per_run: GpusOption = None,
    runs: RunsOption = None,
    results: ResultsOption = Path("results"),
) -> int:
    """Train the missing runs of a grid, each with its matched frozen baseline, and judge all runs.

    If it is interrupted, the same command resumes it. Finished runs are saved in RESULTS/runs and are not
    trained again.
    """
    from walkback.lab.cli.grid_options import grids_from
    from walkback.lab.runs.store import open_store

    given = {"architecture": architecture, "data": data, "methods": methods, "seeds": seeds, "epochs": epochs}
    grids = grids_from(preset, given, assignments or [], name, precision)
    store = open_store(runs, results / "runs")
    if listed:
        from walkback.lab.cli.grid_list import print_list

        print_list(grids, store)
        return 0
    executor = None if untrained else executor_from(workers, ray, cpus_per_run, gpus_per_run, device)
    return _audited(grids, store, results, executor)


def _audited(grids: dict[str, GridConfig], store: RunStore, results: Path, executor: Executor | None) -> int:
    """Train, judge, write and print; the exit status. No executor: nothing is trained."""
    from walkback.lab.cli.grid_list import print_audit
    from walkback.lab.cli.grid_training import train_under_display
    from walkback.lab.grids.grid import unique_runs
    from walkback.lab.studies.audit_of_grid import (
        audit_file,
        audit_of,
        refuse_to_lose_reports,
        refuse_to_lose_rows,
        write_audit,
    )
    from walkback.protocol.records import DiagnosticReport
    from walkback.protocol.verdict import EXIT_ERROR, exit_status

    for name, grid in grids.items():
        refuse_to_lose_rows(audit_file(results, name), grid)
    errors = train_under_display(unique_runs(list(grids.values())), store, executor) if executor else {}
    made: list[dict[str, Any]] = []
    for name, grid in grids.items():
        made.append(audit_of(name, grid, store, errors))
        refuse_to_lose_reports(audit_file(results, name), made[-1])
        write_audit(audit_file(results, name), made[-1])
        print_audit(made[-1], audit_file(results, name), output())
    outcomes = [DiagnosticReport.from_dict(report).outcome for audit in made for report in audit["reports"]]
    without = any(row["error"] for audit in made for row in audit["runs"])
    return EXIT_ERROR if errors else exit_status([*outcomes, "incomplete"] if without else outcomes)
