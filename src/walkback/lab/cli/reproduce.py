"""`walkback lab reproduce`: numbers that others published, and the runs that are meant to give them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkback.cli.options import ResultsOption, RunsOption
from walkback.cli.output import folder_for, output, require_writable
from walkback.lab.cli.grid_training import (
    CpusOption,
    GpusOption,
    RayOption,
    WorkersOption,
    executor_from,
    train_under_display,
)
from walkback.lab.cli.place import DeviceOption, PrecisionOption
from walkback.lab.runs.hardware import AUTO

if TYPE_CHECKING:
    from walkback.lab.reproductions.published import Reproduction
    from walkback.lab.runs.store import RunStore

EVERYTHING = "all"
FP32 = "fp32"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    epilog = "Exit status: 0 whatever was reproduced; 2 an error, or a run that failed."
    app.command("reproduce", epilog=epilog)(reproduce)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Names of reproductions whose missing runs are trained; `all` for all."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List names, progress and core-hours; train nothing.")] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Time a few steps of each run, and save the estimated cost.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the page, such as docs/REPRODUCTIONS.md.")
    ] = None,
    precision: PrecisionOption = None,
    device: DeviceOption = AUTO,
    workers: WorkersOption = None,
    ray: RayOption = None,
    cpus_per_run: CpusOption = None,
    gpus_per_run: GpusOption = None,
    runs: RunsOption = None,
    results: ResultsOption = Path("results"),
) -> int:
    """Train the runs behind numbers published by others, and compare the results.

    Without a name it trains nothing and compares the recorded runs. The same command resumes what was
    interrupted.
    """
    from walkback.errors import InputError
    from walkback.lab.reproductions.catalogue import named
    from walkback.lab.reproductions.comparing import compared
    from walkback.lab.reproductions.page import TITLE, overview, page_of, sections
    from walkback.present.page import Page
    from walkback.protocol.schema import write_whole

    other = precision is not None and precision != FP32
    if other and (page is not None or estimate):
        raise InputError(
            "--write and --estimate are about the runs in fp32, which stand beside the published numbers. "
            "Leave out --precision."
        )
    require_writable([page], [results])
    wanted = named(name for name in names or [] if name != EVERYTHING)
    if other:
        wanted = [each.in_precision(str(precision)) for each in wanted]
    errors: dict[str, str] = {}
    if estimate:
        _estimate(wanted, results)
    elif names and not listed:
        store = _store(runs, results)
        configs = [config for each in wanted for config in each.configs().values()]
        errors = train_under_display(configs, store, executor_from(workers, ray, cpus_per_run, gpus_per_run, device))
        _measure_angles(wanted, store, results)
    if page is not None:
        write_whole(page, page_of(compared(named([]), results)).markdown())
    found = compared(wanted, results)
    details = sections(found) if names and not listed else []
    for block in Page(TITLE, [overview(found), *details]).blocks():
        output().print(block)
    for run_id, error in errors.items():
        output().print(f"run {run_id} failed: {error}")
    return 2 if errors else 0


def _store(runs: Path | str | None, results: Path) -> RunStore:
    from walkback.lab.runs.store import open_store

    return open_store(runs, results / "runs")


def _estimate(wanted: Sequence[Reproduction], results: Path) -> None:
    import torch

    from walkback.lab.reproductions.comparing import ESTIMATE_FILE, table_in
    from walkback.lab.reproductions.estimate import estimated

    torch.set_num_threads(1)
    path = folder_for(results) / ESTIMATE_FILE
    found = estimated(wanted, output().print)
    for table in ("seconds_per_epoch", "core_hours"):
        found[table] = table_in(path, table) | found[table]
    _kept(path, found)
    output().print(f"saved to {path}")


def _measure_angles(wanted: Sequence[Reproduction], store: RunStore, results: Path) -> None:
    """Ask the weights of finished runs for the angles that are not on record; where they are not here, it stays so."""
    from walkback.lab.reproductions.angles import angles_of
    from walkback.lab.reproductions.comparing import ANGLES_FILE, table_in

    path = folder_for(results) / ANGLES_FILE
    known = table_in(path, "runs")
    before = dict(known)
    for each in wanted:
        for config in each.configs().values() if each.has_angles else ():
            stored = store.run(config)
            found = angles_of(config, stored) if stored.finished and config.run_id not in known else None
            known |= {} if found is None else {config.run_id: found}
    if known != before:
        _kept(path, {"command": "walkback lab reproduce NAME", "runs": dict(sorted(known.items()))})


def _kept(path: Path, content: dict[str, Any]) -> Path:
    import json

    from walkback.protocol.schema import write_whole

    return write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
