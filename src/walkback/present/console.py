"""The terminal: what is printed shows nothing but what it says, fits its width, and has no exit status of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table

from walkback.present.plain import visible

NARROWEST = 60
UNLIMITED = 10_000
"""Columns that a pipe has where COLUMNS does not say: more than any table of ours asks for."""


def _visible(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Segments whose words hold no control characters: those of the terminal are rich's own, and stand apart."""
    for segment in segments:
        shown = segment.text if segment.control else visible(segment.text)
        yield segment if shown == segment.text else Segment(shown, segment.style, segment.control)


def _trimmed(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Segments without the blanks that rich fills lines up with, which a reader would paste along."""
    blanks: list[Segment] = []
    for segment in segments:
        if segment.control:
            yield segment
            continue
        for part in segment.text.splitlines(keepends=True):
            words = part.rstrip(" \n")
            rest = part[len(words) :]
            if words:
                yield from blanks
                blanks = []
                yield Segment(words, segment.style)
            if rest.endswith("\n"):
                blanks = []
                yield Segment("\n")
            elif rest:
                blanks.append(Segment(rest, segment.style))
    yield from blanks


@dataclass(frozen=True)
class Safe:
    """Something to print on any console: without trailing blanks, nor the escape sequences of others' words."""

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield from _trimmed(_visible(console.render(self.inner, options)))


class SafeConsole(Console):
    """A console on which words are words: neither escape sequences nor markup in them count."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of anything that is printed."""
        return _visible(super().render(renderable, options))


class StandardOutput(SafeConsole):
    """Where the reader of a pipe goes away, this raises; rich would exit with 1, which means a walk-back."""

    def __init__(self, *, width: int | None = None, prose: int | None = None) -> None:
        super().__init__(width=width)
        self._prose = prose

    def print(self, *objects: Any, **how: Any) -> None:
        """Tables as wide as the console, everything else no wider than is read well."""
        if self._prose is not None and not any(map(_is_table, objects)):
            how.setdefault("width", self._prose)
        super().print(*(each if isinstance(each, str) else Safe(each) for each in objects), **how)

    def on_broken_pipe(self) -> None:
        """Tell whoever prints."""
        raise BrokenPipeError


def _is_table(shown: Any) -> bool:
    """Whether it is a table of networks or the like, or has one; a grid without rules is words beside a label."""
    if isinstance(shown, Safe):
        return _is_table(shown.inner)
    if isinstance(shown, Group):
        return any(map(_is_table, shown.renderables))
    return isinstance(shown, Table) and shown.box is not None


def standard_output(prose: int) -> Console:
    """Standard output; a pipe has the width that COLUMNS says, else none: there words alone wrap, at `prose`.

    A terminal that is narrower than any table can be is left to wrap its lines itself.
    """
    console = StandardOutput()
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console if console.width >= NARROWEST else StandardOutput(width=NARROWEST)
    return StandardOutput(width=UNLIMITED, prose=prose)
