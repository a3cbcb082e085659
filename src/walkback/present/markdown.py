"""A report as GitHub Markdown, for an issue, a pull request or a README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from walkback.present import in_panel, outline
from walkback.present.alignment_facts import alignment_facts
from walkback.present.evidence import OTHERS, evidence
from walkback.present.numbers import interval_bounds, level, reading_value, with_unit
from walkback.present.plain import NOTE_LENGTH, one_line, shortened
from walkback.present.site_table import SiteTable, alignment_table, cells, site_table
from walkback.protocol.records import DiagnosticReport, Reading

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]|~#!$])|([&<>])")


def render(report: DiagnosticReport) -> str:
    """The report as Markdown, with every word of others escaped."""
    return "\n\n".join(_parts(report)) + "\n"


def escape(text: str) -> str:
    """Text that stands for itself in a paragraph or a cell: no markup, no HTML, no line ends, no bars."""
    return _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] else _ENTITIES[m[2]], one_line(text))


def _parts(report: DiagnosticReport) -> Iterator[str]:
    yield f"## walkback: {escape(outline.title(report))}"
    yield f"**Verdict:** {escape(outline.verdict_line(report))}"
    if others := in_panel.other_verdicts(report):
        yield f"Other panels: {escape(others)}"
    about = [shortened(report.notes, NOTE_LENGTH), outline.basis(report)]
    yield from (escape(line) for line in about if line)
    if report.readings:
        yield _diagnostics(report)
        yield "\n".join(_meanings(report))
    yield from _bullets(OTHERS, evidence(report))
    yield from _sites("Along the network", site_table(report))
    yield from _bullets("Alignment Γ", alignment_facts(report))
    yield from _sites("Γ and its null", alignment_table(report))
    yield from _bullets("Not known", outline.not_measured(report))
    yield from _bullets("Warnings", [("warning", w) for w in outline.warnings(report)])
    yield from _bullets("Thresholds", outline.thresholds(report))
    yield from _bullets("Provenance", outline.provenance(report))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], aligned: str) -> str:
    """A Markdown table; `aligned` has one letter per column, l or r."""
    rules = ["---:" if letter == "r" else "---" for letter in aligned]
    lines = [[escape(h) for h in headings], rules, *([_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _diagnostics(report: DiagnosticReport) -> str:
    rows = [
        (
            in_panel.label(report, r.letter),
            in_panel.name(report, r),
            reading_value(r),
            outline.fires_when(r).removeprefix("fires when "),
            outline.state_and_role(report, r),
            _interval(r),
        )
        for r in report.readings
    ]
    return table(("", "diagnostic", "value", "fires when", "reading", "interval"), rows, "llrrll")


def _cell(words: str) -> str:
    """A cell as it is marked up, where it says so itself: see `page.Links`."""
    marked = getattr(words, "marked", None)
    return str(marked()) if marked is not None else escape(words)


def _interval(reading: Reading) -> str:
    bounds = interval_bounds(reading)
    if bounds is None or reading.interval is None:
        return "–"
    return f"{bounds[0]} to {with_unit(bounds[1], reading.unit)} ({level(reading.interval)})"


def _meanings(report: DiagnosticReport) -> Iterator[str]:
    for reading in report.readings:
        how = shortened(reading.interval.how, 160) if reading.interval else ""
        made = f" Interval: {how}." if how else ""
        short = in_panel.label(report, reading.letter)
        yield f"- **{escape(short)}** {escape(outline.sentence(report, reading) + made)}"


def _bullets(heading: str, facts: outline.Facts) -> Iterator[str]:
    if facts:
        yield f"### {heading}"
        yield "\n".join(f"- {escape(label)}: {escape(words)}" for label, words in facts)


def _sites(heading: str, sites: SiteTable | None) -> Iterator[str]:
    if sites is None:
        return
    decided = ["decides"] if any(sites.decides) else []
    headings = ["block", *(c.heading for c in sites.columns), *decided]
    rows: list[list[str]] = []
    for site in sites.shown:
        if sites.after_gap(site):
            rows.append(["⋮"] + [""] * (len(headings) - 1))
        letters = [sites.decides[site]] if decided else []
        rows.append([shortened(sites.name(site), 80), *cells(sites, site), *letters])
    yield f"### {heading}"
    yield table(headings, rows, "l" + "r" * len(sites.columns) + "l" * len(decided))
    if sites.left_out:
        yield escape(sites.left_out[0].upper() + sites.left_out[1:] + ".")
