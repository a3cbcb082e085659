"""`walkback lab train`: train one run, or go on with it, and print its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.cli.options import RunsOption
from walkback.cli.saying import say
from walkback.lab.cli.place import DeviceOption, PrecisionOption
from walkback.lab.runs.hardware import AUTO, checked_word

if TYPE_CHECKING:
    from walkback.lab.runs.config import RunConfig
    from walkback.lab.runs.store import RunStore, StoredRun

NETWORK, TRAINING = "Network and method", "Training"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    epilog = "Exit status: 0 trained, whatever the verdict; 2 an error; 130 interrupted."
    app.command("train", epilog=epilog)(train)


def train(
    method: Annotated[
        str | None, typer.Option(help="bp, fa, dfa, …: see `walkback lab zoo`.", rich_help_panel=NETWORK)
    ] = None,
    architecture: Annotated[
        str | None, typer.Option("--arch", help="resmlp, vit_mini, …", rich_help_panel=NETWORK)
    ] = None,
    data: Annotated[str | None, typer.Option(help="cifar10, digits, …", rich_help_panel=NETWORK)] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="source",
            help="Use the source study's recipe for the method: its network, its data, its 100 epochs. Other options "
            "override it.",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    credit_norm: Annotated[
        str | None,
        typer.Option(
            help="How the credit is scaled: none, per_sample or rms. Default: the method's own.",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    penalty: Annotated[
        float | None,
        typer.Option(help="Weight λ of a penalty on the output of each residual branch.", rich_help_panel=NETWORK),
    ] = None,
    freezing: Annotated[
        str | None,
        typer.Option(
            help="What is left untrained: none, blocks (the frozen baseline), shallow, or ladder:K (only the "
            "last K blocks train).",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, such as arch.width=512, method.beta=0.5 or data.alpha=2. Repeatable.",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Default: 42.", rich_help_panel=TRAINING)] = None,
    epochs: Annotated[int | None, typer.Option(help="Default: 30.", rich_help_panel=TRAINING)] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--lr", help="Default: 0.001.", rich_help_panel=TRAINING)
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Default: 0.01.", rich_help_panel=TRAINING)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Default: 128.", rich_help_panel=TRAINING)] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw, adam or sgd.", rich_help_panel=TRAINING)] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="cosine, constant, cooldown, or steps (with --set milestones=[50,75]).", rich_help_panel=TRAINING
        ),
    ] = None,
    augment: Annotated[
        bool | None,
        typer.Option("--augment/--no-augment", help="Augment with random crops and flips.", rich_help_panel=TRAINING),
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(
            help="Labels: true, random (drawn again for every batch) or permuted (shuffled once).",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    precision: PrecisionOption = None,
    device: DeviceOption = AUTO,
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Read settings from a TOML file.")
    ] = None,
    runs: RunsOption = None,
) -> int:
    """Train one run, or resume it, and print its report.

    A run is identified by its settings: the same command resumes the run, or shows it once it is finished.
    """
    given = dict(locals())
    flags = {
        name: value
        for name, value in given.items()
        if name not in ("assignments", "config_file", "runs", "recipe", "device")
    }
    from walkback.lab.cli.settings import config_from
    from walkback.lab.runs.store import open_store

    config, store = config_from(flags, assignments or [], config_file, recipe), open_store(runs)
    _show(store, _trained(config, store, device))
    return 0


def _trained(config: RunConfig, store: RunStore, device: str) -> StoredRun:
    """The finished run; what is on stderr says how it got there."""
    checked_word(device)
    stored = store.run(config)
    if stored.finished:
        typer.echo(f"run {config.run_id}, {config.name}, is finished already", err=True)
        return stored
    from walkback.lab.cli.progress import watching
    from walkback.lab.runs.train import train_or_resume

    try:
        with watching(f"{config.run_id} {config.name}") as progress:
            return train_or_resume(config, store, progress, device)
    except KeyboardInterrupt:
        typer.echo(f"run {config.run_id} stopped; the same command resumes it:\n  {config.command}", err=True)
        raise


def _show(store: RunStore, stored: StoredRun) -> None:
    from walkback.lab.runs.baselines import finished_report
    from walkback.present.numbers import percent
    from walkback.present.text import print_report
    from walkback.protocol.schema import naming_source

    with naming_source(f"the result of run {stored.run_id}"):
        result = stored.result()
        if result["ended"]:
            say(f"run {stored.run_id} {result['ended']}", err=True)
        if result["report"] is None:
            say(f"accuracy {percent(result['accuracy'])}; no report: {result['unmeasured']}")
            return
    print_report(finished_report(store, stored))
