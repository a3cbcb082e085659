"""Write the list of names in docs/api.md anew, from the docstrings of what the page shows.

    python tools/api_table.py

A test says when this was forgotten. The source is read and never imported: some of it needs libraries of an extra.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import walkback
import walkback.lab

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
BEGIN, END = "<!-- names: made by tools/api_table.py -->", "<!-- /names -->"


class Entry(NamedTuple):
    """One object of the page."""

    section: str
    path: str
    """Where it is defined, with dots."""

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.rpartition(".")[2]

    @property
    def imported_as(self) -> str:
        """What a reader writes: `walkback.diagnose`."""
        if self.module.startswith("walkback.lab."):
            return f"walkback.lab.{self.name}" if self.name in walkback.lab.__all__ else self.path
        ours = self.name in walkback.__all__ and not self.module.startswith("walkback.integrations.")
        return f"walkback.{self.name}" if ours else self.path

    @property
    def source(self) -> Path:
        """The file of its module."""
        place = ROOT / "src" / Path(*self.module.split("."))
        return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")

    @property
    def sentence(self) -> str:
        """The first line of its docstring."""
        body = ast.parse(self.source.read_text(encoding="utf-8")).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == self.name:
                return (ast.get_docstring(node) or "").partition("\n")[0]
            if isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and self.name in _targets(node):
                return str(ast.literal_eval(after.value)).partition("\n")[0]
        raise SystemExit(f"{PAGE} shows {self.path}, which is not in {self.source}.")


def _targets(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def entries(page: str) -> Iterator[Entry]:
    """The objects that a page shows, under their headings."""
    section = ""
    for line in page.splitlines():
        section = line[3:] if line.startswith("## ") else section
        if shown := re.fullmatch(r"::: ([\w.]+)", line):
            yield Entry(section, shown[1])


def table(page: str) -> str:
    """Every name of a page with its sentence, by section."""
    lines, section = ["| name | what it is |", "|---|---|"], ""
    for entry in entries(page):
        if entry.section != section:
            section = entry.section
            lines.append(f"| **{section}** | |")
        sentence = entry.sentence.replace("|", "\\|")
        lines.append(f"| [`{entry.imported_as}`](#{entry.path}) | {sentence} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """A page with the table between the two marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{PAGE} has no {BEGIN} followed by {END}.")
    return f"{before}{BEGIN}\n\n{table(page)}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
