"""Verdicts from records: walkback's own reports and traces, audits and logs that other programs wrote.

Nothing is invented: what a record lacks stays not measured. No torch is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from walkback.arguments import known_arguments
from walkback.errors import InputError, RecordError
from walkback.protocol.again import version_of
from walkback.protocol.judge import judge, under
from walkback.protocol.panels import panel_named
from walkback.protocol.records import DiagnosticReport, StoredVerdict
from walkback.protocol.schema import Record, naming_source
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.verdict import TRUSTWORTHY
from walkback.watch.audits import ABOUT, networks
from walkback.watch.column_map import ColumnMap, Row, is_site, is_value
from walkback.watch.event_files import event_rows, own_columns
from walkback.watch.follow import TraceFollower
from walkback.watch.logs import REFERENCE_BATCH, LogColumns, csv_rows, flat_rows, json_rows, runs_in
from walkback.watch.policy import StopPolicy
from walkback.watch.summary import CourseSummary, summary_of, trail_of
from walkback.watch.trace import trace_of_result
from walkback.watch.trace_file import run_name, trace_in
from walkback.watch.trail import Trail
from walkback.watch.what_is import Found, Kind, what_is

LOGS = (Kind.EVENTS, Kind.TABLE, Kind.LINES)
"""Records whose columns have to be named, unless walkback wrote them."""
PASSED = (TRUSTWORTHY, "pass")
"""How the verdict of a record begins that finds nothing wrong: in the words of walkback, or of the June edition."""


class Replayed(Record):
    """One recorded network, judged again."""

    name: str
    """What the record calls it."""
    source: str
    """The file that it comes from."""
    report: DiagnosticReport
    """The report; of the last moment, where the record has several."""
    recorded_verdict: str | None = None
    """What the record itself concluded, in its own words."""
    course: CourseSummary | None = None
    """The course of the run, where the record is over time; else None."""


@known_arguments()
def replay(
    files: str | Path | Iterable[str | Path],
    thresholds: DiagnosticThresholds | None = None,
    require_all: bool = False,
    *,
    panel: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    blocks: int | None = None,
    loss_batch: int = REFERENCE_BATCH,
    policy: StopPolicy | None = None,
) -> list[Replayed]:
    r"""Judge every network recorded in the files, in their order. No torch is needed.

    What a record does not hold is not measured. Each network is judged under the thresholds given here, or the
    published ones; not under the record's own.

    Args:
        files: one path or several: reports, audits and finished runs as JSON; traces; CSV or JSON-lines logs;
            TensorBoard event files; directories of a run.
        thresholds: where each diagnostic fires; the published values where not given.
        require_all: True makes a verdict `incomplete` where a diagnostic of the panel was not measured.
        panel: which panel decides; `april2026` where none is named.
        columns: for logs of other programs, which column holds which value:
            `h_0=a,h_L=b,g_2=c,acc=val_acc,epoch=epoch`, or the same as a mapping. `h` and `g` are columns of lists
            with one value for each site, `g_1..L` of lists of those.
        blocks: for logs, the number of blocks L, where the columns do not show it.
        loss_batch: for logs, over how many samples the loss behind the recorded gradients was averaged; 128 is the
            published convention.
        policy: for records over time, when a run would have been stopped; the default `StopPolicy` where not given.

    Returns:
        One entry per recorded network, with its report and, of a record over time, its course.

    Raises:
        RecordError: a file is missing, corrupt, or no record that this version reads.
        UnknownName: there is no such panel.
        InputError: `columns` names an unknown value, a log has no `columns`, or a number is below 1.

    Cost:
        One pass over each file.

    Examples:
        >>> import tempfile, walkback
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = Path(folder) / "log.csv"
        ...     _ = log.write_text("epoch,stream_in,stream_out\n1,8,9\n2,8,9000\n")
        ...     found = walkback.replay(log, columns="epoch=epoch,h_0=stream_in,h_L=stream_out", blocks=1)
        >>> found[0].report.outcome, str(found[0].course.first_fired["a"])
        ('fail', 'epoch 2')
    """
    paths = [Path(path) for path in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise InputError("replay got no files; give at least one record.")
    log = _log_columns(columns, blocks, loss_batch)
    panel_named(panel)  # refused before anything is read
    found: list[Replayed] = []
    for path in paths:
        with naming_source(path):
            found += _replayed(path, thresholds, log, policy, (blocks, loss_batch))
    if panel is None and not require_all:
        return found
    return [_decided(entry, panel or entry.report.panel, require_all) for entry in found]


def _decided(entry: Replayed, panel: str, require_all: bool) -> Replayed:
    """The same with a panel deciding that was asked for."""
    report = under(entry.report, panel, require_all)
    if report.stored is not None and report.stored.verdict == report.verdict:
        report = report.model_copy(update={"stored": None})  # this panel says what the record's own said
    return entry.model_copy(update={"report": report})


def _log_columns(columns: str | Mapping[str, str] | None, blocks: int | None, loss_batch: int) -> LogColumns | None:
    for name, value in (("blocks", blocks), ("loss_batch", loss_batch)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; expected 1 or more.")
    if columns is None:
        return None
    mapped = ColumnMap.parse(columns) if isinstance(columns, str) else ColumnMap(columns)
    return LogColumns(mapped, blocks, loss_batch)


def _replayed(
    path: Path,
    thresholds: DiagnosticThresholds | None,
    log: LogColumns | None,
    policy: StopPolicy | None,
    said: tuple[int | None, int],
) -> Iterator[Replayed]:
    found = _found(path)
    path = found.path
    by_names = ""
    if log is not None or found.kind in LOGS:
        runs, by_names = _runs(found, log, thresholds, policy, said)
    elif found.kind is Kind.TRACE:
        yield from (entry for entry, _ in traced(path, thresholds, policy))
        return
    elif found.kind is Kind.RESULT:
        name = str(found.content.get("name") or run_name(path))
        runs = {name: trail_of(trace_of_result(found.content, path), thresholds, policy)}
    else:
        for name, recorded, known in networks(found):
            report = judge(known, thresholds, **{key: recorded[key] for key in ABOUT if recorded.get(key)})
            yield _at_one_moment(name, path, report, recorded)
        return
    for name, trail in runs.items():
        entry = _over_time(name, path, trail, thresholds)
        yield (
            entry
            if not by_names
            else entry.model_copy(update={"report": entry.report.model_copy(update={"notes": by_names})})
        )


def traced(
    path: Path, thresholds: DiagnosticThresholds | None = None, policy: StopPolicy | None = None
) -> Iterator[tuple[Replayed, Trail]]:
    """Each run in a trace by itself, with its course."""
    runs = TraceFollower(path, thresholds, policy).look(to_the_end=True)
    if not runs:
        raise RecordError(f"{path} holds no measurements yet.")
    for found in runs:
        yield _over_time(found.name, path, found.run.trail, thresholds, found.remark), found.run.trail


def _at_one_moment(name: str, path: Path, report: DiagnosticReport, recorded: Mapping[str, Any]) -> Replayed:
    """What the record itself concluded stands beside the verdict where it is another."""
    stored = recorded.get("stored")
    if not isinstance(stored, StoredVerdict):
        stored = _said_otherwise(recorded, report)
    report = report.model_copy(update={"stored": stored})
    return Replayed(name=name, source=str(path), report=report, recorded_verdict=recorded.get("verdict"))


def _said_otherwise(recorded: Mapping[str, Any], report: DiagnosticReport) -> StoredVerdict | None:
    said, panel = recorded.get("verdict"), recorded.get("panel", report.panel)
    if not isinstance(said, str) or said.lower().startswith(PASSED) == report.trustworthy:
        return None
    decided = () if panel == report.panel else (f"the panel {panel} decided there, {report.panel} here",)
    return StoredVerdict(verdict=said, version=version_of(report), differs=decided)


def _over_time(
    name: str, path: Path, trail: Trail, thresholds: DiagnosticThresholds | None, remark: str = ""
) -> Replayed:
    if trail.last is None:
        raise RecordError(f"{path} holds no measurements yet.")
    # What a log was judged by is in its report already, which knows of the sites that it lacks.
    last = trail.last if isinstance(trail.last, DiagnosticReport) else judge(trail.last, thresholds)
    report = last.model_copy(update={"method_name": name, "warnings": (remark,) if remark else ()})
    return Replayed(name=name, source=str(path), report=report, course=summary_of(trail))


def _found(path: Path) -> Found:
    """What is replayed of a path: of a run's directory its trace."""
    found = what_is(path)
    if found.kind is Kind.RUN:
        trace = trace_in(path)
        if trace == path:
            raise RecordError(f"{path} is {found.told} that holds no trace yet. Give another, or wait for it.")
        return what_is(trace)
    if found.kind is Kind.WANDB:
        raise RecordError(
            f"{path} is {found.told}, whose file format has no public reader. Replay the trace that the monitor wrote "
            "next to it, or export the run's history to CSV."
        )
    return found


def _runs(
    found: Found,
    log: LogColumns | None,
    thresholds: DiagnosticThresholds | None,
    policy: StopPolicy | None,
    said: tuple[int | None, int],
) -> tuple[dict[str, Trail], str]:
    """The runs of a log, and what must be told of its columns where they were taken by their names.

    `said` is what columns do not show: the number of blocks, and over how many samples the loss was averaged.
    """
    rows, told = _rows(found), ""
    if log is None:
        columns = own_columns(rows)
        if columns is None and (columns := ColumnMap.by_names(rows)) is not None:
            log = LogColumns(columns, *said)
            told = _BY_NAMES.format(columns=", ".join(columns.columns), batch=said[1])
        elif columns is None:
            there = list(dict.fromkeys(column for row in rows for column in row.values))
            raise InputError(
                f"{found.path} is a log of another program. Say which column holds which value with --map, such as "
                f"--map {_suggested(there)}. Its columns: {', '.join(there[:40]) or 'none'}."
            )
        else:
            log = LogColumns(columns)
    return runs_in(rows, log, found.path, thresholds, policy), told


_BY_NAMES = (
    "The columns were taken by their names: {columns}. h_l and g_l are the median norms at the sites, g of a loss "
    "averaged over {batch} samples (--loss-batch), acc a share from 0 to 1. If they hold something else, say what with "
    "--map."
)


def _suggested(columns: Sequence[str]) -> str:
    """A map of columns that have the names of values; what they hold is for the caller to say."""
    alike = [column for column in columns if is_value(column)]
    sites = any(is_site(column) for column in alike)
    return ",".join(f"{name}={name}" for name in alike) if sites else "h_0=…,h_L=…,g_L=…,acc=…,epoch=…"


def _rows(found: Found) -> list[Row]:
    """Rows of any record: of JSON, a list of objects, or the log that Hugging Face's Trainer keeps in its state."""
    if found.kind is Kind.EVENTS:
        return event_rows(found.path)
    if found.kind is Kind.TABLE:
        return csv_rows(found.path)
    if found.kind in (Kind.LINES, Kind.TRACE):
        return json_rows(found.path)
    content = found.content
    if isinstance(content, dict) and isinstance(content.get("log_history"), list):
        content = content["log_history"]
    return flat_rows(content if isinstance(content, list) else [content], found.path)
