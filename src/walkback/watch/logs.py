"""Runs that other programs recorded: rows of a CSV or JSON-lines log, or of TensorBoard's events, by a column map."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.protocol.schema import parse_json
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.wording import counted
from walkback.watch.column_map import ColumnMap, Row
from walkback.watch.log_sites import blocks_of, norms_by_site
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.partial import PartialMeasurements, partial_audit
from walkback.watch.policy import StopPolicy
from walkback.watch.trace_file import whole_lines
from walkback.watch.trail import Trail

REFERENCE_BATCH = 128
"""As in `protocol.capture`, which needs torch to import."""


@dataclass(frozen=True)
class LogColumns:
    """Which columns of a log hold what, and what the columns alone do not say."""

    columns: ColumnMap
    blocks: int | None = None
    """L, where the columns do not show it."""
    loss_batch: int = REFERENCE_BATCH
    """The number of samples that the loss behind the recorded gradients was averaged over."""


def csv_rows(path: Path) -> list[Row]:
    """The rows of a CSV file with a header row."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            file.seek(0)
            table = csv.DictReader(file, delimiter=_separator(path, header))
            columns = list(table.fieldnames or ())
            # The reader's own count, of lines: blank ones, and those inside of quotes, are no rows.
            rows = [Row(f"line {table.line_num}", values) for values in table]
    except UnicodeDecodeError as error:
        raise RecordError(
            f"{path} is not UTF-8 text (byte {error.start + 1:,}). Save the table as CSV in UTF-8."
        ) from None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, csv.Error) as error:
        raise RecordError(f"cannot read {path} as CSV: {error}.") from None
    if not columns:
        raise RecordError(f"{path} is empty; expected a header row with the names of the columns, and rows below it.")
    if not rows:
        raise RecordError(f"{path} has a header row and no row below it; expected a row for each measurement.")
    twice = {column for column in columns if columns.count(column) > 1}
    if twice:
        raise RecordError(f"{path} has several columns called {', '.join(sorted(twice))}. Give each a name of its own.")
    for row in rows:
        if None in row.values:
            raise RecordError(
                f"{path}, {row.place} has more cells than the header row has columns ({len(columns)}). Put quotes "
                "around a cell that holds the separator."
            )
        if row is not rows[-1] and None in row.values.values():
            # The last row may be one that is being written.
            there = sum(value is not None for value in row.values.values())
            raise RecordError(
                f"{path}, {row.place} has {counted(there, 'cell')} where the header row has {len(columns)} columns. "
                "Leave a cell empty where a value was not measured."
            )
    return rows


def _separator(path: Path, header: str) -> str:
    """Tabs in .tsv files; semicolons where the header row has those and no comma, as European spreadsheets write it."""
    if path.suffix == ".tsv":
        return "\t"
    return ";" if ";" in header and "," not in header else ","


def json_rows(path: Path) -> list[Row]:
    """The objects of a JSON-lines file, nested ones with dotted names."""
    rows = []
    for number, text in enumerate(whole_lines(path), 1):
        if text.strip():
            try:
                rows.append(_flat_row(parse_json(text), f"line {number}", path))
            except ValueError as error:
                raise RecordError(f"{path}, line {number} is not JSON ({error}).") from None
    return rows


def flat_rows(rows: Sequence[Any], path: Path) -> list[Row]:
    """Objects with dotted names in place of nested ones."""
    return [_flat_row(row, f"row {number}", path) for number, row in enumerate(rows, 1)]


def _flat_row(row: Any, place: str, path: Path) -> Row:
    if not isinstance(row, dict):
        raise RecordError(f"{path}, {place} is {type(row).__name__}; expected one object per row.")
    return Row(place, dict(_flat(row)))


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def runs_in(
    rows: Sequence[Row],
    log: LogColumns,
    path: Path,
    thresholds: DiagnosticThresholds | None = None,
    policy: StopPolicy | None = None,
) -> dict[str, Trail]:
    """The runs of a log, by name, each with its judged moments in order."""
    log.columns.check(rows, str(path))
    runs: dict[str, dict[At, dict[str, Any]]] = {}
    for number, row in enumerate(rows, 1):
        values = log.columns.values(row, f"{path}, {row.place}")
        name = values.pop("name", path.stem)
        at = _moment(values, number)
        # Loggers write the values of one epoch in several rows, each with some of the columns.
        runs.setdefault(name, {}).setdefault(at, {}).update(values)
    judged = {name: _judged(moments, log, path, thresholds, policy) for name, moments in runs.items()}
    if not any(map(len, judged.values())):
        raise RecordError(f"{path}: no row holds the size of the stream or of a gradient in the mapped columns.")
    return {name: trail for name, trail in judged.items() if len(trail)}


def _moment(values: dict[str, Any], number: int) -> At:
    epoch, step = values.pop("epoch", None), values.pop("step", None)
    if epoch is None and step is None:
        return At(step=number)
    return At(epoch=_whole(epoch), step=int(step) if step is not None and epoch is None else None)


def _whole(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value


def _judged(
    moments: Mapping[At, dict[str, Any]],
    log: LogColumns,
    path: Path,
    thresholds: DiagnosticThresholds | None,
    policy: StopPolicy | None,
) -> Trail:
    trail, losses = Trail(policy, goes_back=False), LossCourse()
    blocks = blocks_of(moments, log.blocks, str(path))
    for at, values in moments.items():
        known, fell = _known(values, blocks, log.loss_batch, f"{path}, {at}"), losses.see(at, values.get("loss"))
        if known is not None:
            report = partial_audit(known.model_copy(update={"training_loss": fell}), thresholds)
            trail.add(at, report, report.readings, values.get("seconds"))
    return trail


def _known(values: dict[str, Any], blocks: int | None, loss_batch: int, where: str) -> PartialMeasurements | None:
    """What one moment holds; None where no site was recorded."""
    if blocks is None:
        return None
    hiddens, grads = (norms_by_site(values, letter, blocks, where) for letter in "hg")
    if not hiddens and not grads:
        return None
    for key in ("acc", "frozen_acc"):
        if values.get(key, 0) > 1:
            raise RecordError(
                f"{where}: {key} is {values[key]:g}; expected a share from 0 to 1. If the column holds per cent, map "
                f"it as {key}_percent=COLUMN."
            )
    accuracy, frozen = (_share(values, key) for key in ("acc", "frozen_acc"))
    try:
        known = PartialMeasurements(
            blocks=blocks,
            residual_norms=hiddens,
            bp_grad_norms={site: norm * loss_batch / REFERENCE_BATCH for site, norm in grads.items()},
            cross_batch_stability=values.get("c"),
            error_size=values.get("error"),
            headline_acc=accuracy,
            frozen_baseline_acc=frozen,
        )
        known.measurements()
    except InputError as error:
        raise RecordError(f"{where}: {str(error).rstrip('.')}.") from None
    return known


def _share(values: Mapping[str, Any], key: str) -> float | None:
    """An accuracy, whether the log has it as a share or in per cent."""
    percent: float | None = values.get(f"{key}_percent")
    return percent / 100 if percent is not None else values.get(key)
