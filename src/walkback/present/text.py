"""A report as text: plain where it is piped or pasted, coloured on a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.arguments import known_arguments
from walkback.errors import InputError
from walkback.present import in_panel, outline
from walkback.present.alignment_facts import MEANING, alignment_facts
from walkback.present.brief import brief, sections
from walkback.present.comparison import comparison_blocks, name_of, seed_blocks
from walkback.present.console import Safe, standard_output
from walkback.present.evidence import OTHERS, evidence, gaps_beside
from walkback.present.in_short import in_a_sentence
from walkback.present.numbers import reading_value
from walkback.present.places import place
from walkback.present.plain import NOTE_LENGTH, shortened
from walkback.present.site_table import alignment_table, site_table
from walkback.present.text_tables import site_blocks
from walkback.protocol.combinable import refuse_others
from walkback.protocol.records import DiagnosticReport, Reading, State

if TYPE_CHECKING:
    from walkback.protocol.seeds import SeedSummary

WIDTH = 100
_INDENT = 4

STYLES = {
    State.PASS: "green",
    State.FIRE: "bold red",
    State.NOT_MEASURED: "dim",
    State.UNDECIDED: "yellow",
    State.REPORTED: "cyan",
}


def render(report: DiagnosticReport) -> str:
    """The whole report as plain text, at most 100 columns wide."""
    return to_plain(blocks(report))


def render_brief(report: DiagnosticReport) -> str:
    """The report in about ten lines: the verdict, why, how sure, what to do next."""
    return to_plain(brief_blocks(report))


def print_report(report: DiagnosticReport, console: Console | None = None, *, full: bool = False) -> None:
    """Print the report in about ten lines, or all of it; in colour where the console shows colour."""
    target = console or standard_output(WIDTH)
    for block in blocks(report, target.width) if full else brief_blocks(report):
        target.print(Safe(block))


class Comparison(str):
    """Several reports side by side: plain text, and a table where a notebook shows it."""

    reports: tuple[DiagnosticReport, ...]
    names: tuple[str, ...]

    def _repr_html_(self) -> str:
        from walkback.present.notebook import comparison

        return comparison(self.reports, self.names)


@known_arguments()
def compare(reports: Sequence[DiagnosticReport], names: Sequence[str] | None = None) -> Comparison:
    """Show several reports side by side as plain text: one row each, and what the seeds of a method agree on.

    Args:
        reports: what to show, in this order.
        names: what each row is called, one for each report; its method and seed where not given.

    Returns:
        The table as a string, at most 100 columns wide. A notebook shows it as a table.

    Raises:
        InputError: there is not one name for each report.

    Examples:
        >>> import walkback
        >>> measured = walkback.Measurements(residual_norms=[8.0, 9.0], bp_grad_norms=[1e-3, 1e-3])
        >>> report = walkback.judge(measured, method_name="DFA", seed=0)
        >>> "DFA" in walkback.compare([report])
        True
    """
    if reports:
        refuse_others(reports, "compare")
    if names is not None and len(names) != len(reports):
        raise InputError(f"compare got {len(reports)} reports and {len(names)} names; expected one name for each.")
    made = Comparison(to_plain(comparison_blocks(reports, names)))
    made.reports, made.names = tuple(reports), tuple(names or map(name_of, reports))
    return made


def print_comparison(
    reports: Sequence[DiagnosticReport],
    console: Console | None = None,
    names: Sequence[str] | None = None,
    recorded: str = "",
) -> None:
    """Print several reports side by side, in colour where the console shows colour.

    `recorded` says what the record calls them, where readers know other names.
    """
    target = console or standard_output(WIDTH)
    for block in comparison_blocks(reports, names, target.width, recorded):
        target.print(Safe(block))


def render_seeds(summary: SeedSummary) -> str:
    """What several seeds of one method say, as plain text."""
    return to_plain(seed_blocks(summary))


def to_plain(renderables: Iterable[RenderableType]) -> str:
    """What a console without colour would print, without trailing blanks."""
    file = io.StringIO()
    # Width and height both, or rich asks the terminal; the rest keeps colour settings of the environment out.
    console = Console(
        file=file, width=WIDTH, height=100, color_system=None, force_terminal=False, force_jupyter=False,
        highlight=False, legacy_windows=False,
    )  # fmt: skip
    for renderable in renderables:
        console.print(Safe(renderable))
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines())


def blocks(report: DiagnosticReport, width: int = WIDTH) -> Iterator[RenderableType]:
    """The parts of the report, its verdict first."""
    yield _verdict(report)
    yield _head(report)
    yield from _warnings(report)
    for reading in report.readings:
        yield _diagnostic(report, reading)
    yield from _facts("what to do next", [("", step) for step in dict(sections(report)).get("next", [])])
    yield from _facts(OTHERS.lower(), evidence(report))
    yield from site_blocks(site_table(report), width)
    yield from _facts(MEANING, alignment_facts(report))
    yield from site_blocks(alignment_table(report), width)
    # The readings and Γ have said above what they lack.
    yield from _facts("also not measured", gaps_beside(report))
    if others := in_panel.other_verdicts(report):
        yield Text(f"other panels: {others}", style="dim")


def brief_blocks(report: DiagnosticReport) -> Iterator[RenderableType]:
    """The verdict, the name, and the labelled lines below them."""
    yield _verdict(report)
    yield Text.assemble((outline.title(report), "bold"), f": {in_a_sentence(report)}.")
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    for label, words in brief(report):
        rows.add_row(label, Text(words))
    yield rows


def _head(report: DiagnosticReport) -> RenderableType:
    lines = [Text.assemble(("walkback report", "bold"), ": ", outline.title(report))]
    lines += [Text(shortened(report.notes, NOTE_LENGTH))] if report.notes else []
    lines += [Text(line, style="dim") for line in (outline.basis(report), outline.parts(report)) if line]
    return Group(*lines, Text())


def _diagnostic(report: DiagnosticReport, reading: Reading) -> RenderableType:
    line = Text()
    line.append(_padded(in_panel.named(report, reading), 24), style="bold")
    line.append(_padded(outline.state_word(reading), 15), style=STYLES[reading.state])
    line.append(f"{reading_value(reading):>12}   {outline.fires_when(reading)}")
    line.append(f"   at {place(report, reading.site)}" if reading.site is not None else "")
    role = in_panel.role(report, reading.letter)
    line.append(f"   {role}" if role else "", style="dim")
    below = [part for part in (outline.interval_text(reading), outline.sentence(report, reading)) if part]
    return Group(line, *(Padding(Text(part), (0, 0, 0, _INDENT)) for part in below), Text())


def _padded(text: str, width: int) -> str:
    return text + " " * max(width - cell_len(text), 1)


def _facts(heading: str, facts: outline.Facts) -> Iterator[RenderableType]:
    if not facts:
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, max_width=30)
    grid.add_column(overflow="fold")
    for label, words in facts:
        grid.add_row(Text(label), Text(words))
    yield Text(heading, style="bold")
    yield Padding(grid, (0, 0, 1, _INDENT))


def _warnings(report: DiagnosticReport) -> Iterator[RenderableType]:
    for warning in outline.warnings(report):
        yield Padding(Text.assemble(("warning: ", "yellow"), warning), (0, 0, 1, 0))


def _verdict(report: DiagnosticReport) -> RenderableType:
    return Text.assemble(("verdict: ", "bold"), (outline.verdict_line(report), STYLES[outline.verdict_state(report)]))
