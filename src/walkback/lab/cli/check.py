"""`walkback lab check`: short runs of every recipe, beside what prototypes of them showed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkback.cli.options import ResultsOption, RunsOption
from walkback.cli.output import folder_for, output
from walkback.lab.cli.place import DeviceOption, PrecisionOption
from walkback.lab.runs.hardware import AUTO

MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", metavar="DIR", help="Write the table as a page to this directory.")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("check", epilog="Exit status: 0 checked, whatever came out; 2 an error or a failed run.")(check)


def check(
    untrained: Annotated[bool, typer.Option("--no-train", help="Compare the finished runs; train nothing.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that train at once.")] = 2,
    precision: PrecisionOption = None,
    device: DeviceOption = AUTO,
    runs: RunsOption = None,
    results: ResultsOption = Path("results"),
    markdown: MarkdownOption = None,
) -> int:
    """Train each recipe of the zoo for a few epochs on CIFAR-10, and compare it with its prototype."""
    from walkback.lab.cli.grid_training import executor_from, train_under_display
    from walkback.lab.runs.store import open_store
    from walkback.lab.studies.zoo_check import check as compare
    from walkback.lab.studies.zoo_check import configs_in, page, stem
    from walkback.protocol.json_codec import json_text
    from walkback.protocol.schema import write_whole
    from walkback.protocol.verdict import EXIT_ERROR

    results = folder_for(results)  # what cannot be written is better told before the work
    pages = folder_for(markdown) if markdown is not None else None
    store = open_store(runs, results / "runs")
    precision = precision or "fp32"
    configs = configs_in(precision)
    executor = executor_from(workers, device=device)
    errors = {} if untrained else train_under_display(configs, store, executor)
    result = compare(store, precision)
    write_whole(results / f"{stem(precision)}.json", json_text(result))
    drawn = page(result)
    if pages is not None:
        write_whole(pages / f"{stem(precision)}.md", drawn.markdown())
    for block in drawn.blocks():
        output().print(block)
    return EXIT_ERROR if errors else 0
