"""`walkback lab validity`: the bench of known truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.cli.output import folder_for, output
from walkback.lab.cli.place import WHERE
from walkback.lab.runs.hardware import AUTO, CPU

if TYPE_CHECKING:
    from walkback.lab.validity.bench import Bench

FP32 = "fp32"
RunOption = Annotated[
    str | None, typer.Option("--run", metavar="PART", help="Train the missing networks of one part: fit or held.")
]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", metavar="CONDITION", help="Only networks of this condition; repeatable.")
]
DocsOption = Annotated[Path, typer.Option("--docs", metavar="DIR", help="Where VALIDITY.md and its figure go.")]
ResultsOption = Annotated[
    Path,
    typer.Option("--results", metavar="DIR", help="Directory of the split, the tables and the list of uses of --open."),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("validity", epilog="Exit status: 0 done; 2 an error, or a network that could not be trained.")(validity)


def validity(
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Time one network of each condition, and print the core-hours of all.")
    ] = False,
    run: RunOption = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit the thresholds of the panel `calibrated`, on the part to fit on only.")
    ] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Score the panels on the part to fit on; write VALIDITY.md and its figure.")
    ] = False,
    open_: Annotated[
        bool,
        typer.Option("--open", help="Score the panels on the held part. Meant to be done once: each use is recorded."),
    ] = False,
    again: Annotated[
        str,
        typer.Option(
            "--again",
            metavar="REASON",
            help="With --open: score it although it has been scored before; the reason is recorded.",
        ),
    ] = "",
    only: OnlyOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Train at most this many networks of each condition.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of training processes.")] = 2,
    runs: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where records are written.")] = Path(
        "runs/validity"
    ),
    results: ResultsOption = Path("results/validity"),
    docs: DocsOption = Path("docs"),
    precision: Annotated[
        str, typer.Option(help="fp32 alone: the networks are fixed beforehand.", rich_help_panel=WHERE)
    ] = FP32,
    device: Annotated[
        str, typer.Option(help="auto or cpu: the networks are trained on the CPU alone.", rich_help_panel=WHERE)
    ] = AUTO,
) -> int:
    """Train networks with known faults, and count how often each panel is right.

    Without an option it lists the conditions and the progress of each part. The same command resumes what was
    interrupted.
    """
    from walkback.errors import InputError
    from walkback.lab.validity.bench import Bench

    _refuse_another_place(device, precision)
    if again and not open_:
        raise InputError("--again goes with --open: it opens the held part once more.")
    if sum((estimate, run is not None, fit, score, open_)) > 1:
        raise InputError("--estimate, --run, --fit, --score and --open are steps of their own; give one at a time.")
    bench = Bench.at(runs, results)
    if estimate:
        return _estimate(bench)
    if run is not None:
        return _run(bench, run, only or [], workers, limit)
    if fit:
        return _fit(bench)
    if score or open_:
        if open_:
            bench.open(again=again)
        tables = bench.tables()
        bench.write_rates(tables)
        page = bench.page(tables)
        path = bench.write_page(folder_for(docs), page, tables)
        for block in page.blocks():
            output().print(block)
        output().print(f"page in {path}, tables in {results}")
        return 0
    return _listed(bench)


def _refuse_another_place(device: str, precision: str) -> None:
    """Raise for a device or a precision in which a network of the bench would be another one."""
    from walkback.errors import InputError
    from walkback.lab.runs.hardware import checked_word
    from walkback.protocol.schema import shortened

    if checked_word(device) not in (AUTO, CPU) or precision != FP32:
        asked = f"--device {device}" if precision == FP32 else f"--precision {shortened(precision)}"
        raise InputError(
            f"{asked} is not for this command. The networks of the bench are fixed beforehand: they are trained on the "
            "CPU in fp32, and elsewhere they would be other networks. Leave the option out."
        )


def _estimate(bench: Bench) -> int:
    import json

    from walkback.lab.validity.estimate import ESTIMATE_FILE, estimate
    from walkback.lab.validity.making import make
    from walkback.protocol.schema import write_whole

    folder = folder_for(bench.results)
    found = estimate(make, output().print)
    path = write_whole(folder / ESTIMATE_FILE, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for name, hours in found["core_hours"].items():
        output().print(f"{name}: {hours:.2f} core-hours")
    output().print(f"saved to {path}")
    return 0


def _fit(bench: Bench) -> int:
    from walkback.lab.validity.scoring import in_words
    from walkback.lab.validity.split import require_committed

    require_committed(bench.results)
    for decider in bench.fit():
        output().print(f"{in_words(decider)} (never tighter than {decider.candidate.guard:g})")
    output().print(f"thresholds in {bench.panel}; commit them before the held part is opened")
    return 0


def _run(bench: Bench, half: str, only: list[str], workers: int, limit: int | None) -> int:
    from walkback.lab.validity.conditions import CONDITIONS, condition_named
    from walkback.lab.validity.runner import run_half
    from walkback.lab.validity.split import half_named, require_committed
    from walkback.protocol.verdict import EXIT_ERROR

    chosen = half_named(half)
    require_committed(bench.results)
    names = [condition_named(name).name for name in only] or list(CONDITIONS)
    try:
        states = run_half(bench.folder, chosen, names, workers, output().print, limit)
    finally:
        for path in bench.folder.pack(chosen, names):
            output().print(f"records in {path}")
    failures = [failure for state in states for failure in state.failed]
    for failure in failures:
        output().print(failure)
    return EXIT_ERROR if failures else 0


def _listed(bench: Bench) -> int:
    from walkback.lab.validity.conditions import CONDITIONS, condition_named
    from walkback.lab.validity.runner import progress_of
    from walkback.lab.validity.split import HEALTHY_QUOTA
    from walkback.present.page import Grid, Page

    rows = []
    for name in CONDITIONS:
        condition = condition_named(name)
        states = [progress_of(bench.folder, half, name) for half in HEALTHY_QUOTA]
        counts = [f"{state.as_made} of {state.wanted}" for state in states]
        rows.append([name, condition.family, *counts, ", ".join(condition.found_by) or "none"])
    headings = ("condition", "family", *HEALTHY_QUOTA, "meant to find it")
    for block in Page("The bench of known truth", [Grid(headings, rows, "llrrl")]).blocks():
        output().print(block)
    return 0
