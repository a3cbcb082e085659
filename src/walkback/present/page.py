"""A page of paragraphs and tables, for a terminal and as Markdown: what studies and evidence are shown as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from walkback.present.markdown import escape, table
from walkback.present.text_tables import ruled_table


class Grid(NamedTuple):
    """A table; `aligned` has one letter per column, l or r."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligned: str


class Links(str):
    """A cell of one or several links: on a terminal its words, in Markdown each with its address."""

    pairs: Sequence[tuple[str, str]]

    def __new__(cls, pairs: Sequence[tuple[str, str]]) -> Links:
        """From words and addresses."""
        made = super().__new__(cls, " ".join(words for words, _ in pairs))
        made.pairs = tuple(pairs)
        return made

    def marked(self) -> str:
        """The cell as Markdown."""
        return " ".join(f"[{escape(words)}]({address})" if address else escape(words) for words, address in self.pairs)


class Picture(NamedTuple):
    """A picture beside the page, and what it shows in words."""

    address: str
    words: str


class Heading(NamedTuple):
    """A heading under the title."""

    words: str
    level: int = 2


class Code(NamedTuple):
    """Commands to copy, as they are."""

    text: str


Part = str | Grid | Heading | Code | Picture


class Page(NamedTuple):
    """A title and what follows it; a plain string is a paragraph."""

    title: str
    parts: Sequence[Part]

    def markdown(self) -> str:
        """The page as Markdown."""
        return "\n\n".join([f"# {escape(self.title)}", *map(_markdown, self.parts)]) + "\n"

    def blocks(self) -> Iterator[RenderableType]:
        """The page for a console."""
        yield Text(self.title, style="bold")
        for part in self.parts:
            yield Text()
            yield _drawn(part)


def _markdown(part: Part) -> str:
    if isinstance(part, Code):
        return f"```\n{part.text}\n```"
    if isinstance(part, Picture):
        return f"![{escape(part.words)}]({part.address})"
    if isinstance(part, Grid):
        return table(part.headings, part.rows, part.aligned)
    if isinstance(part, Heading):
        return f"{'#' * part.level} {escape(part.words)}"
    return part.marked() if isinstance(part, Links) else escape(part)


def _drawn(part: Part) -> RenderableType:
    if isinstance(part, Code):
        return Text(part.text)
    if isinstance(part, Heading):
        return Text(part.words, style="bold")
    if isinstance(part, Picture):
        return Text(f"[{part.words}]")
    if isinstance(part, str):
        return Text(part)
    drawn = ruled_table()
    for heading, letter in zip(part.headings, part.aligned, strict=True):
        drawn.add_column(Text(heading), justify="right" if letter == "r" else "left", overflow="fold")
    for row in part.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn
