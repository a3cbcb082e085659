"""Training many runs under one display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from walkback.experiments.config import RunConfig
    from walkback.experiments.store import RunStore


def train_under_display(runs: Sequence[RunConfig], store: RunStore, workers: int) -> dict[str, str]:
    """Train what is missing, under one display; the errors of runs that failed."""
    from walkback.cli.grid_progress import Board, watching
    from walkback.experiments.executors import LocalProcesses
    from walkback.experiments.train_grid import missing_runs, train_missing

    executor = LocalProcesses(workers)
    missing = missing_runs(runs, store)
    if not missing:
        typer.echo(f"all {len(runs)} runs are finished already", err=True)
        return {}
    board = Board(missing, len(runs) - len(missing), workers)
    try:
        with watching(board) as watcher:
            return train_missing(missing, store, executor, watcher, watcher.say)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on where this one was", err=True)
        raise
