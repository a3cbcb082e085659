"""Several reports side by side: one row each, then what the seeds of each method agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.present import numbers
from walkback.present.numbers import ABSENT, figure
from walkback.present.plain import NAME_LENGTH, middle_out, one_line, shortened
from walkback.present.seeds import headline, remarks, sentences, summaries
from walkback.present.text_tables import GAP, ruled_table
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.verdict import kind_of

if TYPE_CHECKING:
    from walkback.protocol.seeds import SeedSummary

NAME_WIDTH = 16
"""What a name may take even where verdicts must wrap for it."""
_LEAST_NAME = 9
_LEAST_VERDICT = 12

Cell = Callable[[DiagnosticReport], str]


def comparison_blocks(
    reports: Sequence[DiagnosticReport], names: Sequence[str] | None = None, width: int = 100
) -> Iterator[RenderableType]:
    """The table, its legend, and a paragraph for every method with several reports."""
    if not reports:
        yield Text("no reports")
        return
    yield _table(reports, names or [_name(report) for report in reports], width)
    yield Text()
    yield Text(_legend(reports), style="dim")
    for words in remarks(reports):
        yield Text.assemble(("warning: ", "yellow"), words)
    for summary in summaries(reports):
        yield Text()
        yield from seed_blocks(summary)


def seed_blocks(summary: SeedSummary) -> Iterator[RenderableType]:
    """What several seeds of one method say, overall and per diagnostic."""
    yield Text(headline(summary), style="bold")
    for sentence in sentences(summary):
        yield Padding(Text(sentence), (0, 0, 0, 4))


def row(report: DiagnosticReport) -> list[str]:
    """Accuracy, ‖h_L‖, growth, ‖g_L‖, (c), ρ and margin, as they are written."""
    return [cell(report) for _, cell in COLUMNS]


def short_verdict(report: DiagnosticReport) -> str:
    """The verdict with the letters alone: `walk-back a b d`, `trustworthy, no d`."""
    fired = [r.letter for r in report.readings if r.state is State.FIRE]
    gaps = [r.letter for r in report.readings if r.state in (State.NOT_MEASURED, State.UNDECIDED)]
    word = kind_of(report.verdict).removeprefix("needs ") or "not judged"
    words = word + (f" {' '.join(fired)}" if fired else "") + (f", no {' '.join(gaps)}" if gaps else "")
    return shortened(words, NAME_LENGTH)


def _reading(report: DiagnosticReport, letter: str) -> Reading | None:
    return next((r for r in report.readings if r.letter == letter), None)


def _name(report: DiagnosticReport) -> str:
    seed = "" if report.seed is None else f" {report.seed}"
    return (report.method_name or "unnamed") + seed


def _margin(report: DiagnosticReport) -> str:
    reading = _reading(report, "d")
    if reading is None or reading.figure is None:
        return ABSENT
    return numbers.against(reading.figure, reading.threshold, numbers.signed)


def _last(values: Sequence[float] | None) -> str:
    return figure(values[-1]) if values else ABSENT


def _drift(report: DiagnosticReport) -> str:
    site = report.stability_layer
    shares = report.drift_shares
    return ABSENT if shares is None or site is None else figure(shares[site])


COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("acc %", lambda r: numbers.percent(r.headline_acc).removesuffix(" %")),
    ("‖h_L‖", lambda r: _last(r.residual_norms)),
    ("growth", lambda r: numbers.against(r.max_per_block_growth, r.thresholds.h_norm_explosion_ratio)),
    ("‖g_L‖", lambda r: numbers.against(r.bp_grad_norms[-1] if r.bp_grad_norms else None, r.thresholds.g_norm_floor)),
    ("(c)", lambda r: numbers.against(r.cross_batch_stability, r.thresholds.stability_drift_ceiling)),
    ("ρ", _drift),
    ("margin", _margin),
)


def _table(reports: Sequence[DiagnosticReport], names: Sequence[str], width: int) -> Table:
    rows = [row(report) for report in reports]
    kept = _kept(rows, width)
    verdicts = max(len(short_verdict(report)) for report in reports)
    figures = sum(_column_width(rows, i) for i in kept)
    name_width = max(width - figures - verdicts - GAP, NAME_WIDTH)
    table = ruled_table()
    table.add_column(Text("name"), no_wrap=True, min_width=_LEAST_NAME)
    for i in kept:
        # Only names and verdicts give way: half a number is worse than none.
        wide = _column_width(rows, i) - GAP
        table.add_column(Text(COLUMNS[i][0]), justify="right", no_wrap=True, min_width=wide)
    table.add_column(Text("verdict"), overflow="fold", min_width=_LEAST_VERDICT)
    for name, report, cells in zip(names, reports, rows, strict=True):
        fired = any(r.state is State.FIRE for r in report.readings)
        verdict = Text(short_verdict(report), style="red" if fired else "")
        table.add_row(Text(middle_out(name, name_width)), *(Text(cells[i]) for i in kept), verdict)
    return table


def _column_width(rows: Sequence[Sequence[str]], i: int) -> int:
    return GAP + max(len(COLUMNS[i][0]), *(len(cells[i]) for cells in rows))


def _kept(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns that some report fills; where the width is short, ρ and then (c) give way."""
    kept = [i for i in range(len(COLUMNS)) if any(r[i] != ABSENT for r in rows)]
    for heading in ("ρ", "(c)", "margin", "growth"):
        if sum(_column_width(rows, i) for i in kept) + _LEAST_NAME + GAP + _LEAST_VERDICT <= width:
            break
        kept = [i for i in kept if COLUMNS[i][0] != heading]
    return kept


def _legend(reports: Sequence[DiagnosticReport]) -> str:
    names = {r.letter: r.name for report in reports for r in report.readings}
    letters = ", ".join(one_line(f"{letter} {name}") for letter, name in names.items())
    unread = any(not r.complete for r in reports)
    return f"{letters}; margin in pp" + ("; `no d`: (d) not measured, which is no pass" if unread else "")
