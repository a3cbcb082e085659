"""Several reports side by side: one row each, then what the seeds of each method agree on."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.present import in_panel, numbers
from walkback.present.numbers import written
from walkback.present.plain import middle_out, one_line
from walkback.present.seeds import HOW_TO_READ, headline, remarks, sentences, summaries
from walkback.present.tex_escape import escape
from walkback.present.text_tables import GAP, ruled_table
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Scalar
from walkback.protocol.diagnostics.known import scalars
from walkback.protocol.diagnostics.some_sites import growth_between_ends
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.wording import listed

if TYPE_CHECKING:
    from walkback.protocol.seeds import SeedSummary

NAME_WIDTH = 16
"""What a name may take before columns leave for it."""
_LEAST_NAME = 9
_HOW_TO_SEE = "A wider terminal shows them (or COLUMNS=200), as do --csv FILE and --html FILE of walkback report."
VERDICT_WIDTH = 24
"""What a verdict may take before it wraps; columns leave for that much of it."""


def comparison_blocks(
    reports: Sequence[DiagnosticReport], names: Sequence[str] | None = None, width: int = 100, recorded: str = ""
) -> Iterator[RenderableType]:
    """The table, its legend, and a paragraph for every method with several reports."""
    if not reports:
        yield Text("no reports")
        return
    named = names or [name_of(report) for report in reports]
    wanted = columns(reports)
    kept = _kept(reports, wanted, named, width)
    yield _table(reports, named, kept, width)
    yield Text()
    yield Text(_legend(reports, kept), style="dim")
    if left := [column.heading for column in wanted if column not in kept]:
        yield Text(f"not shown at this width: {', '.join(left)}. {_HOW_TO_SEE}", style="dim")
    if recorded:
        yield Text(f"in the record: {recorded}", style="dim")
    for asked in dict.fromkeys(in_panel.to_ask_for(report) for report in reports):
        if asked:
            yield Text(f"to ask for: {asked}")
    if others := in_panel.other_verdicts_of_several(reports):
        yield Text(f"other panels: {others}", style="dim")
    for words in remarks(reports):
        yield Text.assemble(("warning: ", "yellow"), words)
    for summary in (several := summaries(reports)):
        yield Text()
        yield from seed_blocks(summary)
    if several:
        yield Text()
        yield Text(HOW_TO_READ, style="dim")


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
    return in_panel.limits(report).get(scalar.threshold)


def row(report: DiagnosticReport, shown: Sequence[Column] | None = None) -> list[str]:
    """The numbers of these columns, as they are written; of all that the report fills where none are given."""
    return [column.write(report, column.raw(report)) for column in (columns([report]) if shown is None else shown)]


def short_verdict(report: DiagnosticReport) -> str:
    """The verdict with the letters alone: `walk-back a b d`, `trustworthy, no d, a undecided`; never cut, whatever its
    length."""
    return " ".join(_verdict_parts(report))


def _verdict_parts(report: DiagnosticReport) -> list[str]:
    """What fired, what is missing or undecided, and what fired beside the verdict, each with its word."""
    panel, gaps = in_panel.panel_of(report), _gaps(report)
    word = panel.short(report.outcome) if report.decision is not None else "not judged"
    parts = [" ".join([one_line(word), *_bare(report, in_panel.fired(report))])]
    for state, words_of in _GAP_WORDS.items():
        if found := _bare(report, [reading for reading in gaps if reading.state is state]):
            parts = [*parts[:-1], f"{parts[-1]},", words_of.format(" ".join(found))]
    if beside := _bare(report, in_panel.fired_beside(report)):
        parts = [*parts[:-1], f"{parts[-1]};", f"beside it {' '.join(beside)}"]
    return parts


def _folded(report: DiagnosticReport, width: int) -> str:
    """The verdict in lines of this width: between parts first, so that a letter stands behind its word; then between
    letters. A word is broken only where it alone is wider."""
    if len(short_verdict(report)) <= width:
        return short_verdict(report)
    wrapped = (textwrap.wrap(part, width, subsequent_indent="  ", break_on_hyphens=False)
               for part in _verdict_parts(report))  # fmt: skip
    return "\n".join(line for lines in wrapped for line in lines)


_GAP_WORDS = {State.NOT_MEASURED: "no {}", State.UNDECIDED: "{} undecided"}


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
    room = width - sum(_column_width(reports, column) for column in kept) - GAP
    verdicts = [len(short_verdict(report)) for report in reports]
    name_width = min(max(map(cell_len, map(one_line, names))), max(room - _asked(reports), _LEAST_NAME))
    table = ruled_table()
    table.add_column(Text("name"), no_wrap=True, min_width=name_width)
    for column in kept:
        # Only names and verdicts give way: half a number is worse than none.
        wide = _column_width(reports, column) - GAP
        table.add_column(Text(one_line(column.heading)), justify="right", no_wrap=True, min_width=wide)
    verdict_width = min(max(verdicts), room - max(name_width, len("name")))
    table.add_column(Text("verdict"), overflow="fold", width=max(verdict_width, len("verdict")))
    for name, report, cells in zip(names, reports, rows, strict=True):
        verdict = Text(_folded(report, verdict_width), style="red" if in_panel.fired(report) else "")
        table.add_row(Text(middle_out(name, name_width)), *(Text(cell) for cell in cells), verdict)
    return table


def _column_width(reports: Sequence[DiagnosticReport], column: Column) -> int:
    return GAP + max(len(column.heading), *(len(row(report, [column])[0]) for report in reports))


def _kept(
    reports: Sequence[DiagnosticReport], shown: Sequence[Column], names: Sequence[str], width: int
) -> list[Column]:
    """As many columns as the width takes beside the verdicts; those that give way first leave it first.

    Names are shortened before any leaves, and once more before those leave that give way last.
    """
    kept = list(shown)
    longest = max(map(cell_len, map(one_line, names)))
    for _, column in sorted(enumerate(shown), key=lambda each: (-each[1].gives_way, -each[0])):
        name = min(longest, NAME_WIDTH if column.gives_way else _LEAST_NAME)
        taken = sum(_column_width(reports, each) for each in kept)
        if taken + name + GAP + _asked(reports) <= width:
            break
        kept.remove(column)
    return kept


def _asked(reports: Sequence[DiagnosticReport]) -> int:
    """What verdicts ask for before any column has its place."""
    return min(max(len(short_verdict(report)) for report in reports), VERDICT_WIDTH)


def _legend(reports: Sequence[DiagnosticReport], shown: Sequence[Column]) -> str:
    letters = letters_in_words({label.strip("()"): name for label, name in labels(reports).items()})
    parts = [letters, *(f"{heading} in {unit}" for heading, unit in units(shown).items()), *directions(shown)]
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


def directions(shown: Sequence[Column]) -> list[str]:
    """Of columns that no threshold is for: which way is better, `nudge: larger is better`."""
    headings = {column.heading for column in shown}
    declared = [(scalar.heading, scalar.larger) for _, scalar in scalars().values() if scalar.larger]
    words = {word: [heading for heading, each in declared if each == word and heading in headings]
             for word in dict.fromkeys(word for _, word in declared)}  # fmt: skip
    return [f"{listed(named)}: larger is {word}" for word, named in words.items() if named]


def units(shown: Sequence[Column]) -> dict[str, str]:
    """Those of these columns whose numbers have a unit, and the unit; a ratio needs none."""
    headings = {column.heading for column in shown}
    declared = ((scalar.heading, one.thresholds.get(scalar.threshold)) for one, scalar in scalars().values())
    return {
        heading: limit.unit
        for heading, limit in declared
        if limit and heading in headings and limit.unit not in ("", "×")
    }
