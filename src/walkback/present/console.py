"""The terminal: what is printed shows nothing but what it says, fits its width, and has no exit status of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from walkback.present.plain import visible

NARROWEST = 60


def _visible(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Segments whose words hold no control characters: those of the terminal are rich's own, and stand apart."""
    for segment in segments:
        shown = segment.text if segment.control else visible(segment.text)
        yield segment if shown == segment.text else Segment(shown, segment.style, segment.control)


@dataclass(frozen=True)
class Safe:
    """Something to print on any console, without the escape sequences that words of others may hold."""

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield from _visible(console.render(self.inner, options))


class SafeConsole(Console):
    """A console on which words are words: neither escape sequences nor markup in them count."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of anything that is printed."""
        return _visible(super().render(renderable, options))


class StandardOutput(SafeConsole):
    """Where the reader of a pipe goes away, this raises; rich would exit with 1, which means a walk-back."""

    def on_broken_pipe(self) -> None:
        """Tell whoever prints."""
        raise BrokenPipeError


def standard_output(piped_width: int) -> Console:
    """Standard output; a pipe has no width and gets this one.

    A terminal that is narrower than any table can be is left to wrap its lines itself.
    """
    console = StandardOutput()
    width = max(console.width, NARROWEST) if console.is_terminal else piped_width
    return console if console.width == width else StandardOutput(width=width)
