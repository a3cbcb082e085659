"""A report as LaTeX tables for a paper's appendix; they need `\\usepackage{booktabs}` and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from walkback.present import in_panel, outline
from walkback.present.alignment_facts import alignment_facts
from walkback.present.evidence import OTHERS, evidence
from walkback.present.numbers import ABSENT, interval_bounds, level, reading_value
from walkback.present.plain import NOTE_LENGTH, shortened, site_label
from walkback.present.site_table import Column, SiteTable, alignment_table, cells, site_table
from walkback.present.tex_escape import escape
from walkback.protocol.records import DiagnosticReport, Reading

_NAME_WIDTH = 24


def render(report: DiagnosticReport) -> str:
    """The report as booktabs tables: the diagnostics, the sites, the directions along the network."""
    tables = [_diagnostics(report), *_sites(report)]
    return "% requires \\usepackage{booktabs}\n" + "\n\n".join(tables) + "\n"


def tabular(headings: Sequence[str], rows: Iterable[Sequence[str]], aligned: str) -> str:
    """A booktabs tabular; headings and cells are LaTeX already."""
    body = [" & ".join(row) + r" \\" for row in rows]
    head = " & ".join(headings) + r" \\"
    lines = [
        rf"\begin{{tabular}}{{@{{}}{aligned}@{{}}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
    ]
    return "\n".join([*lines, r"\end{tabular}"])


def document(tables: str) -> str:
    """The tables as a file that compiles by itself and, input into a paper that loads booktabs, is its tables alone.

    Inside a document `\\@nodocument` is `\\relax`, which is how the file knows where it is.
    """
    return f"{_OPENING}{tables}{_CLOSING}"


_OPENING = r"""% Compiles as it is; or \input it into a paper that loads booktabs.
\makeatletter
\ifx\@nodocument\relax
  \let\walkbackend\relax
\else
  \documentclass{article}
  \usepackage{booktabs}
  \usepackage[margin=2cm]{geometry}
  \def\walkbackend{\end{document}}
  \begin{document}
\fi
\makeatother
"""
_CLOSING = "\\walkbackend\n"


def floated(caption: str, label: str, content: str, below: Sequence[str] = ()) -> str:
    """A table with its caption, and notes under it."""
    lines = [r"\begin{table}[htbp]", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"]
    lines += [rf"\caption{{{caption}}}", rf"\label{{{label}}}", content]
    if below:
        notes = r"\\ ".join(below)
        lines += ["", r"\medskip", rf"\parbox{{\linewidth}}{{\raggedright {notes}}}"]
    return "\n".join([*lines, r"\end{table}"])


def _label(report: DiagnosticReport, kind: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", outline.title(report).lower()).strip("-")
    return f"tab:walkback-{slug or 'report'}-{kind}"


def _diagnostics(report: DiagnosticReport) -> str:
    headings = ("diagnostic", "value", "fires when", "reading", "interval")
    rows = [[escape(cell) for cell in _reading_row(report, r)] for r in report.readings]
    # A tabular without rows does not compile, and a report that was never judged has none.
    rows = rows or [["not judged", "", "", "", ""]]
    caption = f"{escape(outline.title(report))}: {escape(outline.verdict_line(report))}."
    return floated(caption, _label(report, "verdict"), tabular(headings, rows, "lrrll"), list(_notes(report)))


def _reading_row(report: DiagnosticReport, reading: Reading) -> Sequence[str]:
    bounds = interval_bounds(reading)
    interval = f"{bounds[0]} to {bounds[1]}" if bounds else ABSENT
    rule = outline.fires_when(reading).removeprefix("fires when ")
    state = outline.state_and_role(report, reading).lower()
    return in_panel.named(report, reading), reading_value(reading), rule, state, interval


def _notes(report: DiagnosticReport) -> Iterator[str]:
    others = in_panel.other_verdicts(report)
    about = (f"Other panels: {others}" if others else "", shortened(report.notes, NOTE_LENGTH), outline.basis(report))
    for line in about:
        if line:
            yield escape(line)
    for reading in report.readings:
        interval = reading.interval
        how = f" {level(interval)} interval: {shortened(interval.how, 160) or 'given'}." if interval else ""
        short = in_panel.label(report, reading.letter)
        yield escape(f"{short} {outline.sentence(report, reading)}{how}")
    groups = (
        (OTHERS, evidence(report)),
        (r"Alignment $\Gamma$", alignment_facts(report)),
        ("Not known", outline.not_measured(report)),
        ("Warnings", [("warning", w) for w in outline.warnings(report)]),
        ("Provenance", outline.provenance(report)),
    )
    for heading, facts in groups:
        if facts:
            yield (
                rf"\emph{{{heading}.}} " + "; ".join(f"{escape(k)}: {escape(v.rstrip('.'))}" for k, v in facts) + "."
            )


def _sites(report: DiagnosticReport) -> Iterator[str]:
    table = site_table(report)
    if table is None:
        return
    # All columns in one table would not fit a page.
    sizes = [c for c in table.columns if c.quantity.kind != "cosine"]
    directions = [c for c in table.columns if c.quantity.kind == "cosine"]
    aligned = alignment_table(report)
    if aligned is not None and aligned.count == table.count:
        again = {column.quantity.name for column in aligned.columns}
        directions = [c for c in directions if c.quantity.name not in again] + list(aligned.columns)
    name = escape(outline.title(report))
    if sizes or not directions:
        yield _site_table(table, sizes, f"{name}: sizes along the network", _label(report, "sizes"))
    if directions:
        caption = f"{name}: directions along the network"
        yield _site_table(table, directions, caption, _label(report, "directions"))


def _site_table(table: SiteTable, columns: Sequence[Column], caption: str, label: str) -> str:
    part = SiteTable(table.names, tuple(columns), table.decides, table.shown)
    rows: list[list[str]] = []
    for site in part.shown:
        if part.after_gap(site):
            rows.append([r"$\vdots$"] + [""] * len(columns))
        rows.append([escape(site_label(part.name(site), _NAME_WIDTH)), *map(escape, cells(part, site))])
    headings = ["block", *(c.quantity.tex or escape(c.heading) for c in columns)]
    below = [escape(part.left_out) + "."] if part.left_out else []
    return floated(caption + ".", label, tabular(headings, rows, "l" + "r" * len(columns)), below)
