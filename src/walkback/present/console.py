"""Standard output as a console: a width that tables fit in, and no exit status of its own."""

from __future__ import annotations

from rich.console import Console

NARROWEST = 60


class StandardOutput(Console):
    """Where the reader of a pipe goes away, this raises; rich would exit with 1, which means a walk-back."""

    def on_broken_pipe(self) -> None:
        """Tell whoever prints."""
        raise BrokenPipeError


def standard_output(piped_width: int) -> Console:
    """Standard output; a pipe has no width and gets this one.

    A terminal that is narrower than any table can be is left to wrap its lines itself.
    """
    console = StandardOutput(highlight=False)
    width = max(console.width, NARROWEST) if console.is_terminal else piped_width
    return console if console.width == width else StandardOutput(highlight=False, width=width)
