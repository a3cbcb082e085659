"""`walkback demo`: two networks trained and judged on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkback.lab.cli.place import DeviceOption, PrecisionOption
from walkback.lab.runs.hardware import AUTO


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the reports and the figure.")] = Path("demo-output"),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each of the four runs.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all runs.")] = 0,
    precision: PrecisionOption = None,
    device: DeviceOption = AUTO,
) -> int:
    """Train a residual MLP by BP and by scaled DFA on generated data, and judge both; no download.

    Scaled DFA is this project's own variant of DFA: the credit of each sample is scaled to length 1.
    """
    import tempfile
    import time

    from walkback.cli.output import folder_for
    from walkback.extras import optional
    from walkback.lab.demo import demonstrate
    from walkback.lab.present.grid_page import grid_page
    from walkback.lab.runs.store import RunStore
    from walkback.present import html_grid
    from walkback.present.figures.over_epochs import plot
    from walkback.present.figures.style import save
    from walkback.present.text import print_comparison, print_report
    from walkback.protocol.schema import write_whole

    optional("matplotlib")  # before anything is trained
    folder = folder_for(out)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as runs:
        shown = demonstrate(
            RunStore(runs), lambda line: typer.echo(line, err=True), epochs, seed, precision or "fp32", device
        )
    seconds = time.perf_counter() - started
    for network in shown:
        typer.echo()
        print_report(network.report)
    typer.echo()
    print_comparison([network.report for network in shown])
    written = [save(plot([network.history for network in shown]), folder / "demo.png")]
    for network in shown:
        for_report = folder / f"{network.method}.json"
        written += [network.report.save(for_report), network.report.to_html(for_report.with_suffix(".html"))]
    typer.echo(f"\n4 networks trained and 2 judged in {seconds:.0f} s. Written: {', '.join(map(str, written))}")
    page = html_grid.render(
        grid_page([network.network for network in shown], [], "BP against scaled DFA, on generated data")
    )
    typer.echo(f"The report of both, to open in a browser: {write_whole(folder / 'report.html', page).resolve()}")
    return 0
