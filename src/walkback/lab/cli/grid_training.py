"""Training many runs under one display, by processes of this machine or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.errors import InputError
from walkback.lab.cli.place import WHERE
from walkback.lab.runs.hardware import AUTO

if TYPE_CHECKING:
    from walkback.lab.grids.executors import Executor
    from walkback.lab.runs.config import RunConfig
    from walkback.lab.runs.store import RunStore

WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes that train at once. Default: 2.", rich_help_panel=WHERE)
]
RayOption = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Train on the Ray cluster at HOST:PORT, or `local`.", rich_help_panel=WHERE),
]
CpusOption = Annotated[
    float | None, typer.Option(help="CPUs that Ray sets aside for each run. Default: 1.", rich_help_panel=WHERE)
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        help="GPUs that Ray gives each run, which trains on them; 0.25 lets four share one. Default: 0.",
        rich_help_panel=WHERE,
    ),
]


def executor_from(
    workers: int | None,
    ray: str | None = None,
    cpus_per_run: float | None = None,
    gpus_per_run: float | None = None,
    device: str = AUTO,
) -> Executor:
    """The executor that the options mean."""
    from walkback.lab.grids.executors import WORKERS, LocalProcesses

    if ray is None:
        if cpus_per_run is not None or gpus_per_run is not None:
            raise InputError("--cpus-per-run and --gpus-per-run are for Ray. Add --ray ADDRESS, or leave them out.")
        return LocalProcesses(WORKERS if workers is None else workers, device=device)
    if workers is not None:
        raise InputError(
            "--workers counts processes of this machine, and --ray hands the runs to a cluster, which takes as many as "
            "fit. Leave out --workers; --cpus-per-run says how much room a run gets."
        )
    from walkback.lab.grids.ray_cluster import RayCluster

    cpus = 1.0 if cpus_per_run is None else cpus_per_run
    return RayCluster(ray, cpus, gpus_per_run or 0.0, device)


def train_under_display(runs: Sequence[RunConfig], store: RunStore, executor: Executor) -> dict[str, str]:
    """Train what is missing, under one display; the errors of runs that failed."""
    from walkback.lab.cli.grid_progress import Board, watching
    from walkback.lab.grids.train_grid import missing_runs, train_missing

    missing = missing_runs(runs, store)
    if not missing:
        typer.echo(f"all {len(runs)} runs are finished already", err=True)
        return {}
    try:
        with executor.ready() as places, watching(Board(missing, len(runs) - len(missing), places)) as watcher:
            return train_missing(missing, store, executor, watcher, watcher.say)
    except KeyboardInterrupt:
        typer.echo("stopped; run the same command again to resume", err=True)
        raise
