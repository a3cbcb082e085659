"""`walkback report [TARGET] --template NAME`: the reporting template, filled in from a run or a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from walkback.cli.train import RunsOption

if TYPE_CHECKING:
    from walkback.protocol.records import DiagnosticReport


class Target(NamedTuple):
    """What a report is about, and the record of the run behind it if there is one."""

    report: DiagnosticReport
    run: dict[str, Any] | None


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report", epilog="Exit status: 0 written, whatever the verdict; 2 an error.")(report)


def report(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET", help="A run's id, its result as JSON, or a report as JSON. None: an empty form."
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="NAME", help="markdown or latex: the form for a paper's appendix."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it there.")] = None,
    runs: RunsOption = None,
) -> int:
    """Write what is on record of a run or a report, for others to read."""
    from walkback.errors import InputError

    if template is None:
        raise InputError("nothing to write was named. Give --template markdown or --template latex.")
    text = _filled(template, load_target(target, runs) if target is not None else None)
    if out is None:
        typer.echo(text, nl=False)
    else:
        from walkback.protocol.schema import write_whole

        write_whole(out, text)
    return 0


def _filled(template: str, target: Target | None) -> str:
    from walkback.errors import UnknownName
    from walkback.present.template import TEMPLATES, form_of
    from walkback.registry import did_you_mean

    if template not in TEMPLATES:
        raise UnknownName(f"there is no template {template!r}. {did_you_mean(template, TEMPLATES)}")
    return TEMPLATES[template](form_of(target.report, target.run) if target else form_of(None))


def load_target(target: str, runs: Path | None) -> Target:
    """A run by its id, or what a JSON file holds: the result of a run, or a report."""
    from walkback.experiments.store import RunStore
    from walkback.protocol.records import DiagnosticReport
    from walkback.protocol.schema import read_json

    path = Path(target)
    if not path.is_file():
        if path.suffix == ".json" or len(path.parts) > 1:
            read_json(path)  # says what is wrong with it
        store = RunStore(runs)
        return _of_run(store, store.find(target).result(), f"run {target}")
    data = read_json(path)
    if isinstance(data, dict) and "result_version" in data:
        # Beside an archived result lie those of other runs, its matched baseline among them.
        return _of_run(RunStore(runs, archive=path.parent), data, str(path))
    return Target(DiagnosticReport.from_dict(data, str(path)), None)


def _of_run(store: Any, result: dict[str, Any], source: str) -> Target:
    from walkback.errors import RecordError
    from walkback.experiments.baselines import baseline_result, joined_report

    try:
        return Target(joined_report(result, baseline_result(store, result)), result)
    except (KeyError, TypeError) as error:
        raise RecordError(f"{source} is not the result of a run: {error} is missing or malformed.") from None
