"""A form in parts, and how it is written: Markdown for a README, LaTeX for a paper's appendix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Entry(NamedTuple):
    """One line of the form: its value, or None and what should stand there."""

    label: str
    value: str | None
    hint: str


class Table(NamedTuple):
    """Figures in rows; `aligned` has one letter per column, l or r."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligned: str


class Section(NamedTuple):
    """A part of the form: entries, a table, or both."""

    title: str
    entries: Sequence[Entry] = ()
    table: Table | None = None


class Form(NamedTuple):
    """The whole form."""

    title: str
    sections: Sequence[Section]
    protocol: str
    """What the form cites, so that whoever reads the figures can find how they are defined."""

    @property
    def gaps(self) -> int:
        """How many entries are still to be filled in."""
        return sum(entry.value is None for section in self.sections for entry in section.entries)


def markdown(form: Form) -> str:
    """The form as Markdown, for a README or a supplement."""
    from walkback.present.markdown import escape, table

    parts = [f"# {escape(form.title)}", escape(form.protocol)]
    for section in form.sections:
        parts.append(f"## {escape(section.title)}")
        if section.entries:
            mark = [(e.label, e.value if e.value is not None else f"TO FILL IN: {e.hint}") for e in section.entries]
            parts.append("\n".join(f"- **{escape(label)}**: {escape(value)}" for label, value in mark))
        if section.table:
            parts.append(table(*section.table))
    return "\n\n".join(parts) + "\n"


def latex(form: Form) -> str:
    """The form as LaTeX for a paper's appendix; it needs `\\usepackage{booktabs}` and nothing else."""
    from walkback.present.latex import tabular
    from walkback.present.tex_escape import escape

    parts = ["% requires \\usepackage{booktabs}", rf"\subsection*{{{escape(form.title)}}}", escape(form.protocol)]
    for section in form.sections:
        parts.append(rf"\paragraph{{{escape(section.title)}.}}")
        if section.entries:
            parts.append(
                "\n".join([r"\begin{description}", *(_item(e, escape) for e in section.entries), r"\end{description}"])
            )
        if section.table:
            headings, rows, aligned = section.table
            cells = [[escape(cell) for cell in row] for row in rows]
            parts.append(
                "\\begin{center}\\footnotesize\n"
                + tabular([escape(h) for h in headings], cells, aligned)
                + "\n\\end{center}"
            )
    return "\n\n".join(parts) + "\n"


def _item(entry: Entry, escape: Callable[[str], str]) -> str:
    words = entry.value if entry.value is not None else entry.hint
    # LaTeX joins two hyphens into a dash, and a command line with dashes cannot be copied.
    written = re.sub(r"--(?=[a-z])", r"\\mbox{-{}-}", escape(words))
    mark = r"\emph{to fill in:} " if entry.value is None else ""
    return rf"\item[{{{escape(entry.label)}}}] {mark}{written}"


TEMPLATES: dict[str, Callable[[Form], str]] = {"markdown": markdown, "latex": latex}
