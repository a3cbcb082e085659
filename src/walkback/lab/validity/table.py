"""The compact table of a half: one line per network, with what each rule says and each quantity is. No torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from walkback.errors import RecordError
from walkback.lab.validity.quantities import QUANTITIES, over_readout
from walkback.lab.validity.record import NetworkRecord
from walkback.lab.validity.split import Half
from walkback.lab.validity.tasks import maker_of
from walkback.protocol.judge import read, read_for
from walkback.protocol.panels import panel_named
from walkback.protocol.panels.base import MISSING
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.schema import Record, explain, parse_json, write_whole
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.words import NON_FINITE
from walkback.registry import PANELS

TABLE_VERSION = 2
BAR = "accuracy below a readout of h_0"
"""The rule that a panel has to beat: the network is flagged where its headline is below a ridge readout of h_0."""
NEEDS_DEPTH, LINEAR_DOES_MUCH = "needs depth", "linear does much"
SOME = {"depth_gain_floor": 0.0}
"""Depth gain says that it cannot be decided only where there is a threshold; which one does not matter."""
CEILING_ERROR = 0.05
"""A frozen twin with less error than this leaves nothing to gain."""


class Row(Record):
    """One network in the table."""

    table_version: int = TABLE_VERSION
    id: str
    half: Half
    condition: str
    dial: float
    group: str
    """Of its task: whether a linear readout of the input can do it."""
    architecture: str
    task: str
    method: str
    claimed: str
    headline: float
    accuracy: float
    frozen: float
    chance: float
    ceiling: bool
    """Whether its frozen twin makes next to no errors."""
    outcomes: dict[str, str]
    """pass, fail or incomplete, of every panel and of the bar."""
    decided_by: dict[str, str] = Field(default_factory=dict)
    """The letters behind a panel's failure."""
    readings: dict[str, float | None] = Field(default_factory=dict)
    """The value of every reading that was measured and decided, by its letter; None where it has no value."""
    bounds: dict[str, float] = Field(default_factory=dict)
    """The upper end of the interval of each reading that has one."""
    non_finite: bool = False
    """Whether a reading fired on NaN or Inf."""
    values: dict[str, float | None]
    """What ROC curves are drawn of, by name."""

    def flagged(self, rule: str) -> bool:
        """Whether a rule fails the network; incomplete is no failure."""
        return self.outcomes.get(rule) == "fail"


def rules() -> list[str]:
    """The panels and the bar, by name."""
    return [*PANELS, BAR]


def row_of(record: NetworkRecord, half: Half) -> Row:
    """A record judged by every rule of today."""
    outcomes, letters = _judged(record)
    read_here = _readings(record)
    readings = {reading.letter: _value(reading) for reading in read_here if reading.state not in MISSING}
    config = record.config
    return Row(
        id=record.id,
        half=half,
        condition=config.condition,
        dial=config.dial,
        group=NEEDS_DEPTH if maker_of(config.task).needs_depth else LINEAR_DOES_MUCH,
        architecture=config.architecture,
        task=config.task,
        method=config.method,
        claimed=record.claimed,
        headline=_short(record.headline),
        accuracy=_short(record.own.accuracy),
        frozen=_short(record.frozen_twin.accuracy),
        chance=_short(record.chance),
        ceiling=1 - record.frozen_twin.accuracy < CEILING_ERROR,
        outcomes=outcomes | {BAR: _bar(record)},
        decided_by=letters,
        readings=readings,
        bounds={r.letter: r.interval.high for r in read_here if r.interval is not None},
        non_finite=any(reading.reason == NON_FINITE for reading in read_here),
        values={candidate.name: _maybe_short(candidate.of(record, readings)) for candidate in QUANTITIES},
    )


def measured_of(record: NetworkRecord) -> Measurements | None:
    """What panels see of a network: everything that was measured, and what its authors call their rule."""
    if record.report is None:
        return None
    return record.report.measurements.model_copy(update={"claimed_rule": record.claimed})


def _readings(record: NetworkRecord) -> tuple[Reading, ...]:
    """Of all diagnostics; each has a threshold, so that what cannot be decided is told."""
    measured = measured_of(record)
    return () if measured is None else read(measured, DiagnosticThresholds().with_fixed(SOME))


def _value(reading: Reading) -> float | None:
    return math.nan if reading.reason == NON_FINITE else reading.value


def _judged(record: NetworkRecord) -> tuple[dict[str, str], dict[str, str]]:
    measured = measured_of(record)
    if measured is None or record.report is None:
        return dict.fromkeys(PANELS, "incomplete"), {}
    found = {name: panel_named(name) for name in PANELS}
    limits = record.report.thresholds
    verdicts = {name: panel.verdict(read_for(panel, measured, limits)) for name, panel in found.items()}
    outcomes: dict[str, str] = {name: verdict.outcome for name, verdict in verdicts.items()}
    return outcomes, {name: "+".join(v.decided_by) for name, v in verdicts.items() if v.outcome == "fail"}


def _bar(record: NetworkRecord) -> str:
    above = over_readout(record)
    return "incomplete" if above is None else "fail" if above < 0 else "pass"


def _short(value: float) -> float:
    return float(f"{value:.6g}") if math.isfinite(value) else value


def _maybe_short(value: float | None) -> float | None:
    return None if value is None else _short(value)


def write(path: Path, rows: Iterable[Row]) -> Path:
    """One line of JSON per network."""
    lines = [json.dumps(row.to_dict(), ensure_ascii=False, sort_keys=True) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, "\n".join(lines) + "\n" if lines else "")


def read_table(path: Path) -> list[Row]:
    """The rows of a table; none where there is no file."""
    if not path.is_file():
        return []
    return [_row(line, f"{path}, line {number}") for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)]


def _row(line: str, source: str) -> Row:
    from pydantic import ValidationError

    try:
        data: Any = parse_json(line)
        row = Row.model_validate(data)
    except ValidationError as error:
        raise RecordError(f"{source} is no row of the bench's table: {explain(error)}.") from None
    except ValueError as error:
        raise RecordError(f"{source} is not JSON ({error}). Make the table again.") from None
    if row.table_version != TABLE_VERSION:
        raise RecordError(f"{source} has table_version {row.table_version}; expected {TABLE_VERSION}. Make it again.")
    return row


def finite_values(rows: Sequence[Row], name: str) -> list[float]:
    """A quantity over the rows that have it."""
    return [value for row in rows if (value := row.values.get(name)) is not None]
