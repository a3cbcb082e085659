"""Several reports side by side: one row each, then what the seeds of each method agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.present import in_panel, numbers
from walkback.present.numbers import written
from walkback.present.plain import NAME_LENGTH, middle_out, one_line, shortened
from walkback.present.seeds import headline, remarks, sentences, summaries
from walkback.present.tex_escape import escape
from walkback.present.text_tables import GAP, ruled_table
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Scalar
from walkback.protocol.diagnostics.known import scalars
from walkback.protocol.diagnostics.some_sites import growth_between_ends
from walkback.protocol.records import DiagnosticReport, Reading, State

if TYPE_CHECKING:
    from walkback.protocol.seeds import SeedSummary

NAME_WIDTH = 16
"""What a name may take even where verdicts must wrap for it."""
_LEAST_NAME = 9
_LEAST_VERDICT = 12


def comparison_blocks(
    reports: Sequence[DiagnosticReport], names: Sequence[str] | None = None, width: int = 100
) -> Iterator[RenderableType]:
    """The table, its legend, and a paragraph for every method with several reports."""
    if not reports:
        yield Text("no reports")
        return
    kept = _kept(reports, columns(reports), width)
    yield _table(reports, names or [name_of(report) for report in reports], kept, width)
    yield Text()
    yield Text(_legend(reports, kept), style="dim")
    for asked in dict.fromkeys(in_panel.to_ask_for(report) for report in reports):
        if asked:
            yield Text(f"to ask for: {asked}")
    if others := in_panel.other_verdicts_of_several(reports):
        yield Text(f"other panels: {others}", style="dim")
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


@dataclass(frozen=True)
class Column:
    """One number of every network: how it is headed, read and written."""

    heading: str
    tex: str
    raw: Callable[[DiagnosticReport], float | None]
    write: Callable[[DiagnosticReport, float | None], str]
    gives_way: int = 0
    """Which leave a table that is too wide: those of the highest number first, those of 0 never."""


def columns(reports: Sequence[DiagnosticReport]) -> list[Column]:
    """The accuracy, and what stands for each diagnostic; those that some report fills."""
    made = [Column("acc %", r"acc \%", lambda r: r.headline_acc, lambda _, v: numbers.percent(v).removesuffix(" %"))]
    made += [_column(one, scalar) for one, scalar in scalars().values() if scalar.tabled]
    made += [Column("‖h_L‖/‖h_0‖", r"$\|h_L\|/\|h_0\|$", growth_between_ends, lambda _, v: written(v), gives_way=2)]
    return [column for column in made if any(column.raw(report) is not None for report in reports)]


def _column(one: type[Diagnostic], scalar: Scalar) -> Column:
    def raw(report: DiagnosticReport) -> float | None:
        return scalar.read(report, next((r.value for r in report.readings if r.letter == one.letter), None))

    def write(report: DiagnosticReport, value: float | None) -> str:
        return numbers.against(value, _limit(report, one, scalar), numbers.signed if scalar.signed else written)

    return Column(scalar.heading, scalar.tex or escape(scalar.heading), raw, write, scalar.gives_way)


def _limit(report: DiagnosticReport, one: type[Diagnostic], scalar: Scalar) -> float | None:
    """What the number is read against: the reading's own threshold, where it is the value of one."""
    if scalar.of is None:
        return next((r.threshold for r in report.readings if r.letter == one.letter), None)
    return (report.thresholds.model_extra or {}).get(scalar.threshold)


def row(report: DiagnosticReport, shown: Sequence[Column] | None = None) -> list[str]:
    """The numbers of these columns, as they are written; of all that the report fills where none are given."""
    return [column.write(report, column.raw(report)) for column in (columns([report]) if shown is None else shown)]


def short_verdict(report: DiagnosticReport) -> str:
    """The verdict with the letters alone: `walk-back a b d`, `trustworthy, no d`, `trustworthy, no d, a undecided`."""
    panel, gaps = in_panel.panel_of(report), _gaps(report)
    word = panel.short(report.outcome) if report.decision is not None else "not judged"
    words = " ".join([word, *_bare(report, in_panel.fired(report))])
    for state, words_of in _GAP_WORDS.items():
        labels = " ".join(_bare(report, [reading for reading in gaps if reading.state is state]))
        words += words_of.format(labels) if labels else ""
    beside = _bare(report, in_panel.fired_beside(report))
    return shortened(words + (f"; beside it {' '.join(beside)}" if beside else ""), NAME_LENGTH)


_GAP_WORDS = {State.NOT_MEASURED: ", no {}", State.UNDECIDED: ", {} undecided"}


def _gaps(report: DiagnosticReport) -> list[Reading]:
    """The readings of the deciding panel that are missing."""
    missing = [r for r in report.readings if r.state in (State.NOT_MEASURED, State.UNDECIDED)]
    return [r for r in missing if in_panel.panel_of(report).member(r.letter) is not None]


def _bare(report: DiagnosticReport, readings: Sequence[Reading]) -> list[str]:
    return [in_panel.label(report, r.letter).strip("()") for r in readings]


def name_of(report: DiagnosticReport) -> str:
    """What a row is called: the method and the seed."""
    seed = "" if report.seed is None else f" {report.seed}"
    return (report.method_name or "unnamed") + seed


def _table(reports: Sequence[DiagnosticReport], names: Sequence[str], kept: Sequence[Column], width: int) -> Table:
    rows = [row(report, kept) for report in reports]
    verdicts = max(len(short_verdict(report)) for report in reports)
    figures = sum(_column_width(reports, column) for column in kept)
    name_width = max(width - figures - verdicts - GAP, NAME_WIDTH)
    table = ruled_table()
    table.add_column(Text("name"), no_wrap=True, min_width=_LEAST_NAME)
    for column in kept:
        # Only names and verdicts give way: half a number is worse than none.
        wide = _column_width(reports, column) - GAP
        table.add_column(Text(one_line(column.heading)), justify="right", no_wrap=True, min_width=wide)
    table.add_column(Text("verdict"), overflow="fold", min_width=_LEAST_VERDICT)
    for name, report, cells in zip(names, reports, rows, strict=True):
        verdict = Text(short_verdict(report), style="red" if in_panel.fired(report) else "")
        table.add_row(Text(middle_out(name, name_width)), *(Text(cell) for cell in cells), verdict)
    return table


def _column_width(reports: Sequence[DiagnosticReport], column: Column) -> int:
    return GAP + max(len(column.heading), *(len(row(report, [column])[0]) for report in reports))


def _kept(reports: Sequence[DiagnosticReport], shown: Sequence[Column], width: int) -> list[Column]:
    """As many columns as the width takes; those that give way first leave it first."""
    kept = list(shown)
    for column in sorted(shown, key=lambda each: -each.gives_way):
        taken = sum(_column_width(reports, each) for each in kept)
        if taken + _LEAST_NAME + GAP + _LEAST_VERDICT <= width or not column.gives_way:
            break
        kept.remove(column)
    return kept


def _legend(reports: Sequence[DiagnosticReport], shown: Sequence[Column]) -> str:
    letters = letters_in_words({label.strip("()"): name for label, name in labels(reports).items()})
    parts = [letters, *(f"{heading} in {unit}" for heading, unit in units(shown).items())]
    gaps = [reading for report in reports for reading in _gaps(report)]
    for state, (mark, meaning) in _GAPS_EXPLAINED.items():
        missing = [reading.letter for reading in gaps if reading.state is state]
        if missing and any(not report.complete for report in reports):
            label = in_panel.label(reports[0], max(missing))
            parts.append(f"`{mark.format(label.strip('()'))}`: {meaning.format(label)}")
    return "; ".join(parts)


_GAPS_EXPLAINED = {
    State.NOT_MEASURED: ("no {}", "{} not measured, which does not count as a pass"),
    State.UNDECIDED: ("{} undecided", "what is known of {} does not settle it, which does not count as a pass"),
}


def labels(reports: Sequence[DiagnosticReport]) -> dict[str, str]:
    """What the deciding panel calls each diagnostic that the reports have, and its title."""
    return {in_panel.label(report, r.letter): in_panel.name(report, r) for report in reports for r in report.readings}


def letters_in_words(labels: Mapping[str, str]) -> str:
    """Labels with their titles, in a line; a label that is its own title stands alone."""
    return ", ".join(label if label == name else f"{label} {name}" for label, name in labels.items())


def units(shown: Sequence[Column]) -> dict[str, str]:
    """Those of these columns whose numbers have a unit, and the unit; a ratio needs none."""
    headings = {column.heading for column in shown}
    declared = ((scalar.heading, one.thresholds.get(scalar.threshold)) for one, scalar in scalars().values())
    return {
        heading: limit.unit
        for heading, limit in declared
        if limit and heading in headings and limit.unit not in ("", "×")
    }
