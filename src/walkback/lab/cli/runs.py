"""`walkback lab runs`: the runs in the store, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkback.addresses import is_address
from walkback.cli.options import RunsOption
from walkback.cli.output import output, require_writable
from walkback.cli.saying import complain
from walkback.errors import InputError, RecordError, RunError, UnknownName

if TYPE_CHECKING:
    from walkback.lab.runs.epochs import EpochRecord
    from walkback.lab.runs.store import RunStore, StoredRun


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("runs")(runs)


def runs(
    root: RunsOption = None,
    method: Annotated[str | None, typer.Option(help="Only runs of this method.")] = None,
    architecture: Annotated[str | None, typer.Option("--arch", help="Only runs of this architecture.")] = None,
    data: Annotated[str | None, typer.Option(help="Only runs on this data set.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only runs in this state: running, finished or interrupted.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the list as JSON to this file.")
    ] = None,
) -> int:
    """List the runs: the progress of each, its accuracy and its verdict."""
    from walkback.lab.runs.store import open_store
    from walkback.protocol.json_codec import json_text
    from walkback.protocol.schema import naming_source, write_whole

    store = open_store(root)
    if root is not None and not store.root.is_dir() and not store.archive.is_dir():
        raise InputError(f"there is no directory {root}. Give the one that was used to train, or omit --runs.")
    wanted = {"method": method, "architecture": architecture, "data": data, "state": state}
    _refuse_unknown(wanted)
    require_writable([json_file], store.folders)
    rows = []
    for run in store:
        try:
            with naming_source(f"run {run.run_id}"):
                row = _row(store, run)
        except (RecordError, RunError, OSError) as error:  # one damaged run hides none of the others
            told = f"run {run.run_id}: {error}. Remove it, and train it again." if isinstance(error, OSError) else error
            complain(told)
            continue
        rows += [row] if _matches(row, wanted) else []
    if json_file is not None:
        write_whole(json_file, json_text(rows))
    elif rows:
        _print(rows)
    else:
        typer.echo(f"no such runs in {store.place}")
    return 0


def _refuse_unknown(wanted: dict[str, str | None]) -> None:
    """Raise for a filter that no run could ever match: the empty table would look like an answer."""
    from walkback.lab.registry import ARCHITECTURES, DATASETS, METHODS
    from walkback.lab.runs.store import RunState
    from walkback.registry import did_you_mean

    states = [state.value for state in RunState]
    for known, (name, value) in zip((METHODS, ARCHITECTURES, DATASETS, states), wanted.items(), strict=True):
        if value is not None and value not in known and (name == "state" or not is_address(value)):
            raise UnknownName(f"no run has the {name} {value!r}. {did_you_mean(value, known)}")


def _matches(row: dict[str, Any], wanted: dict[str, str | None]) -> bool:
    return all(value is None or row[name] == value for name, value in wanted.items())


def _row(store: RunStore, run: StoredRun) -> dict[str, Any]:
    """One run in plain words; nothing here needs torch."""
    config, trace = run.settings["config"], run.trace()
    row: dict[str, Any] = {"id": run.run_id, "name": str(run.settings["name"]), "state": run.state.value}
    row |= {name: config[name] for name in ("method", "architecture", "data", "freezing", "seed", "epochs")}
    row["epochs_done"] = trace[-1].epoch if trace else 0
    row["accuracy"] = trace[-1].accuracy if trace else None
    return row | _judged(store, run, trace[-1] if trace else None)


def _judged(store: RunStore, run: StoredRun, last: EpochRecord | None) -> dict[str, Any]:
    """The verdict of a finished run, with its baseline if that is finished too; of others, what fired so far."""
    from walkback.lab.runs.baselines import baseline_result, joined_report
    from walkback.present.outline import verdict_line
    from walkback.protocol.again import warn_of_stored
    from walkback.protocol.judge import read
    from walkback.protocol.records import State

    if not run.finished:
        readings = read(last.measurements()) if last is not None else ()
        return {"verdict": "", "fired": [r.letter for r in readings if r.state is State.FIRE], "gaps": []}
    result = run.result()
    if result["report"] is None:
        return {"verdict": "not measured", "fired": [], "gaps": []}
    report = joined_report(result, baseline_result(store, result))
    warn_of_stored([report], f"run {run.run_id}")
    verdict = verdict_line(report)
    states = {r.letter: r.state for r in report.readings}
    return {
        "verdict": verdict,
        "fired": [letter for letter, state in states.items() if state is State.FIRE],
        "gaps": [letter for letter, state in states.items() if state in (State.NOT_MEASURED, State.UNDECIDED)],
    }


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from walkback.present.numbers import percent

    table = Table("id", "name", "epochs", "accuracy", "state", "verdict", box=None, header_style="bold")
    table.columns[1].overflow = "fold"
    for row in rows:
        accuracy = "" if row["accuracy"] is None else percent(row["accuracy"])
        done = f"{row['epochs_done']}/{row['epochs']}"
        words = (row["id"], row["name"], done, accuracy, row["state"], _in_short(row))
        table.add_row(*map(Text, words))  # as text: what a record says is no markup
    output().print(table)


def _in_short(row: dict[str, Any]) -> str:
    """The kind of verdict and the letters that fired; of a run under way, the letters so far."""
    letters = ", ".join(f"({letter})" for letter in row["fired"])
    kind = row["verdict"].partition(":")[0].partition(" on ")[0] if row["verdict"] else "so far" * bool(letters)
    gaps = ", ".join(f"({letter})" for letter in row["gaps"])
    return f"{kind} {letters}".strip() + (f"; no {gaps}" if gaps else "")
