"""`walkback lab compare`: methods under one protocol, as many learning rates for each, and the test split read once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from walkback.lab.cli.many_values import ManyValues
from walkback.lab.cli.place import DeviceOption, PrecisionOption
from walkback.lab.runs.hardware import AUTO

if TYPE_CHECKING:
    from walkback.lab.comparisons.plan import Comparison
    from walkback.lab.grids.executors import Executor
    from walkback.lab.runs.store import RunStore

WHAT = "Comparison"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    epilog = "Exit status: 0 all of it is trained, 3 some of it is missing, 2 an error or a failed run."
    app.command("compare", cls=ManyValues, epilog=epilog)(compare)


def compare(
    preset: Annotated[
        str | None,
        typer.Option(
            help="A comparison of docs/FIELD.md: field_mlp_mnist, field_resmlp_cifar10, field_small_cnn_cifar10, "
            "field_gpt_shakespeare, or field for all.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME…",
            help="Methods, optionally with options: dfa fa:penalty=0.01. BP and the frozen baseline are added.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    architecture: Annotated[str | None, typer.Option("--arch", help="resmlp, gpt, …", rich_help_panel=WHAT)] = None,
    data: Annotated[str | None, typer.Option(help="cifar10, digits, …", rich_help_panel=WHAT)] = None,
    budget: Annotated[
        int | None,
        typer.Option(metavar="N", help="Learning rates to try for each method. Default: 3.", rich_help_panel=WHAT),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Seeds for the final runs at the best learning rate. Default: 3.", rich_help_panel=WHAT
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Default: 30.", rich_help_panel=WHAT)] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            help="Share of the training split held out to choose the learning rate. Default: 0.1.", rich_help_panel=WHAT
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE…",
            help="Any other setting of every run, such as arch.width=64.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the record. Default: from network, data and epochs.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List finished and missing runs; train nothing.")] = False,
    untrained: Annotated[
        bool, typer.Option("--no-train", help="Compare the finished runs; list the others as missing.")
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Time a few steps of each method, and save the estimated cost.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE", help="Write the page of all comparisons on record, such as docs/FIELD.md."
        ),
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
    """Compare methods with an equal tuning budget: the learning rate of each is chosen on validation data.

    Then the best learning rate of each is trained with K seeds, and only these runs use the test split. The same
    command resumes what was interrupted.
    """
    from walkback.lab.cli.compare_options import comparisons_from
    from walkback.lab.runs.store import open_store

    given = {"architecture": architecture, "data": data, "methods": methods, "budget": budget, "seeds": seeds,
             "epochs": epochs, "validation": validation}  # fmt: skip
    require_writable([page], [results])
    if page is not None and preset is None and not any(given.values()):
        return _write_page(page, results)
    comparisons = comparisons_from(
        preset, given, assignments or [], name, precision, default="field" if estimate else ""
    )
    if estimate:
        return _estimate(comparisons, results)
    store = open_store(runs, results / "runs")
    if listed:
        from walkback.lab.cli.compare_list import print_plan

        print_plan(comparisons, store)
        return 0
    executor = None if untrained else executor_from(workers, ray, cpus_per_run, gpus_per_run, device)
    status = _compared(comparisons, store, results, executor)
    return max(status, _write_page(page, results)) if page is not None else status


def _compared(comparisons: Sequence[Comparison], store: RunStore, results: Path, executor: Executor | None) -> int:
    """Train, choose, train, write and print; the exit status. No executor: nothing is trained."""
    from walkback.lab.cli.compare_list import print_comparison
    from walkback.lab.comparisons.record import (
        comparison_file,
        failed_runs,
        missing_runs_of,
        record_of,
        refuse_another,
        write_comparison,
    )
    from walkback.protocol.verdict import EXIT_ERROR

    status = 0
    for comparison in comparisons:
        path = comparison_file(results, comparison.name)
        refuse_another(path, comparison)
        errors = _trained(comparison, store, executor) if executor is not None else {}
        record = record_of(comparison, store, errors, comparison_command(comparison))
        write_comparison(path, record)
        print_comparison(record, path, output())
        lacking = 3 if missing_runs_of(record) else 0
        status = (
            EXIT_ERROR if EXIT_ERROR in (status, EXIT_ERROR if failed_runs(record) else 0) else max(status, lacking)
        )
    return status


def comparison_command(comparison: Comparison) -> str:
    """The command line that makes it again."""
    from walkback.lab.cli.compare_options import command_of

    return command_of(comparison)


def _trained(comparison: Comparison, store: RunStore, executor: Executor) -> dict[str, str]:
    """First the rates, then the final runs of every arm whose rates are all tried; errors by id."""
    from walkback.lab.comparisons.choosing import best_of, tried

    errors = train_under_display(comparison.tuning_runs(), store, executor)
    chosen = [(arm, best_of(tried(comparison, arm, store, errors))) for arm in comparison.arms()]
    final = [config for arm, best in chosen if best is not None for config in comparison.final_runs(arm, best.rate)]
    return errors | (train_under_display(final, store, executor) if final else {})


def _estimate(comparisons: Sequence[Comparison], results: Path) -> int:
    import torch

    from walkback.lab.comparisons.estimate import ESTIMATE_FILE, estimated
    from walkback.lab.runs.assembly import keep_dataset
    from walkback.protocol.json_codec import json_text
    from walkback.protocol.schema import write_whole

    torch.set_num_threads(1)
    keep_dataset()
    found = estimated(comparisons, output().print)
    path = write_whole(folder_for(results) / ESTIMATE_FILE, json_text(found))
    output().print(f"saved to {path}")
    return 0


def _write_page(page: Path, results: Path) -> int:
    from walkback.lab.comparisons.publish import publish

    for path in publish(results, page):
        output().print(f"wrote {path}")
    return 0
