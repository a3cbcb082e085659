"""`walkback replay FILE…`: judge recorded measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.cli.options import RequireAllOption, SarifOption
from walkback.cli.saying import say
from walkback.cli.thresholds import PanelOption, with_thresholds
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from walkback.present.network import Network
    from walkback.protocol.records import DiagnosticReport
    from walkback.watch.replay import Replayed

LOGS, STOPPING = "Logs of other programs", "When a run would have been stopped"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("replay")(with_thresholds(replay))


def replay(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Reports, audits or traces of walkback; run directories; CSV or JSON-lines logs; TensorBoard events."
        ),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="NAME=COLUMN,…",
            help="Which column is what: h_0 … h_L, g_0 … g_L (h, g: a list of all; g_1..L: a list of those), acc, "
            "frozen_acc (or acc_percent, frozen_acc_percent), c, error, loss, epoch, step, seconds, name.",
            rich_help_panel=LOGS,
        ),
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(help="Number of blocks, L, if the column names do not show it.", rich_help_panel=LOGS)
    ] = None,
    loss_batch: Annotated[
        int,
        typer.Option(
            help="Batch size over which the loss was averaged for the logged gradients.", rich_help_panel=LOGS
        ),
    ] = 128,
    stop_on: Annotated[
        str,
        typer.Option(help="Stop when one of these diagnostics fires: letters, such as ab.", rich_help_panel=STOPPING),
    ] = "ab",
    patience: Annotated[
        int, typer.Option(help="Stop after it has fired this many times in a row.", rich_help_panel=STOPPING)
    ] = 1,
    warmup: Annotated[float, typer.Option(help="Never stop before this epoch.", rich_help_panel=STOPPING)] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the reports as JSON to this file.")
    ] = None,
    sarif_file: SarifOption = None,
    require_all: RequireAllOption = False,
    panel: PanelOption = None,
    thresholds: DiagnosticThresholds | None = None,
) -> int:
    """Judge recorded measurements again; what a record lacks counts as not measured.

    For a record over time it prints the verdict at its end, when each diagnostic first fired, and what stopping would
    have saved.
    """
    from walkback.cli.output import require_writable
    from walkback.protocol.verdict import exit_status
    from walkback.watch.policy import StopPolicy
    from walkback.watch.replay import replay as judge_files

    require_writable([json_file, sarif_file], files)
    policy = StopPolicy.of(stop_on, patience, warmup)
    judged = judge_files(
        files,
        thresholds,
        require_all,
        panel=panel,
        columns=columns,
        blocks=blocks,
        loss_batch=loss_batch,
        policy=policy,
    )
    if json_file is not None:
        _write(judged, json_file)
    if sarif_file is not None:
        _write_sarif(judged, sarif_file)
    _print(judged)
    return exit_status([entry.report.outcome for entry in judged])


def _print(judged: list[Replayed]) -> None:
    from walkback.cli.output import output
    from walkback.present.comparison import name_of
    from walkback.present.method_names import recorded_as
    from walkback.present.text import print_comparison
    from walkback.present.traces import course_blocks, partial_blocks

    shown = _in_shown_names(judged)
    names = [name_of(each.report) if each.recorded else entry.name for each, entry in zip(shown, judged, strict=True)]
    print_comparison([each.report for each in shown], names=names, recorded=recorded_as(shown))
    for sentence in _what_passes_rest_on(dict(zip(names, judged, strict=True))):
        say(sentence)
    courses = [(e.name, e.course, _remarks(e.report)) for e in judged if e.course is not None]
    console = output()
    for block in (*course_blocks(courses), *partial_blocks([(e.name, e.report) for e in judged])):
        console.print(block)


def _remarks(report: DiagnosticReport) -> tuple[str, ...]:
    """What must be known of a record: its warnings, and how its columns were read."""
    return (*report.warnings, *([report.notes] if report.notes else []))


def _in_shown_names(judged: list[Replayed]) -> list[Network]:
    """The networks as tables name them, which takes the options of an audit's rows."""
    from walkback.present.method_names import in_shown_names, rows_of
    from walkback.present.network import Network
    from walkback.watch.what_is import Kind, what_is

    read = [what_is(Path(source)) for source in {e.source for e in judged} if Path(source).suffix == ".json"]
    rows = {str(found.path): rows_of(found.content) for found in read if found.kind is Kind.AUDIT}
    made = [Network(e.report, options=rows.get(e.source, {}).get(e.report.method_name)) for e in judged]
    return in_shown_names(made)


def _what_passes_rest_on(judged: Mapping[str, Replayed]) -> list[str]:
    """Of what passes with something missing, what alone was judged; networks of which the same is known together."""
    from walkback.present.in_panel import panel_of
    from walkback.protocol.records import State

    groups: dict[str, list[str]] = {}
    for name, entry in judged.items():
        panel, readings = panel_of(entry.report), entry.report.readings
        gaps = panel.gaps(readings)
        if entry.report.outcome != "pass" or not gaps:
            continue
        known = [r for r in readings if panel.member(r.letter) is not None and r.state in (State.PASS, State.FIRE)]
        rests_on = ", ".join(panel.label(reading.letter) for reading in known) or "nothing"
        words = f"the verdict rests on {rests_on} alone; {gaps}. Any of these may still fire."
        groups.setdefault(words, []).append(name)
    return [f"{_listed(names)}: {words}" for words, names in groups.items()]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _write(judged: list[Replayed], path: Path) -> None:
    from walkback.protocol.json_codec import json_text
    from walkback.protocol.schema import write_whole

    entries = [
        {"name": e.name, "source": e.source, "recorded_verdict": e.recorded_verdict}
        | ({"course": e.course.to_dict()} if e.course is not None else {})
        | e.report.to_dict()
        for e in judged
    ]
    write_whole(path, json_text(entries))


def _write_sarif(judged: list[Replayed], path: Path) -> None:
    from walkback.present.sarif import Judged, as_sarif
    from walkback.protocol.schema import write_whole

    write_whole(path, as_sarif([Judged(entry.name, entry.report, Path(entry.source)) for entry in judged]))
