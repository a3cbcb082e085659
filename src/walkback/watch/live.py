"""The one-line view of a run that is being watched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from walkback.protocol.diagnostics.known import scalars
from walkback.protocol.diagnostics.of_others import read_by
from walkback.protocol.wording import signed, written
from walkback.registry import RENDERERS
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine

CLEAR = "\r\x1b[K"


def one_line(line: TraceLine, decision: Decision) -> str:
    """The moment, accuracy, the live scalars of the diagnostics, what has fired since when, a stop with its reason."""
    parts = [value if not name else f"{name} {value}" for name, value in figures(line)]
    if decision.first_fired:
        parts.append("fired " + ", ".join(f"({letter}) {at}" for letter, at in decision.first_fired.items()))
    if line.overhead is not None:
        parts.append(f"monitor {100 * line.overhead:.1f} %")
    if decision.stop:
        parts.append(f"STOP: {decision.reason}")
    return "  ".join(parts)


def figures(line: TraceLine) -> list[tuple[str, str]]:
    """The moment, without a name, the accuracy, and the live scalars of the diagnostics."""
    found = [("", str(line.at))]
    if line.accuracy is not None:
        found.append(("acc", f"{100 * line.accuracy:.2f} %"))
    measured = line.measurements()
    for one, scalar in scalars().values():
        if not scalar.live:
            continue
        value = scalar.read(measured, read_by(one, {}, measured).value if scalar.of is None else None)
        if value is not None:
            found.append((scalar.heading, signed(value) if scalar.signed else written(value)))
    return found


@dataclass(frozen=True)
class Now:
    """A monitor at one moment, as a notebook shows it; in plain text it is the one line."""

    line: TraceLine | None
    """None where nothing was measured yet."""
    decision: Decision

    def _repr_html_(self) -> str:
        return str(RENDERERS.load("notebook")(self))

    def __repr__(self) -> str:
        return "nothing measured yet" if self.line is None else one_line(self.line, self.decision)


class LiveLine:
    """Writes the line on stderr: in place on a terminal, one below the other elsewhere."""

    def __call__(self, line: TraceLine, decision: Decision) -> None:
        """Show one measurement."""
        text = one_line(line, decision)
        if sys.stderr.isatty():
            sys.stderr.write(CLEAR + text + ("\n" if decision.stop else ""))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()


class InPlace:
    """Shows each measurement in the output of a notebook's cell, in the place of the one before."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def __call__(self, line: TraceLine, decision: Decision) -> None:
        """Show one measurement."""
        now = Now(line, decision)
        if self._handle is None:
            self._handle = self._display(now, display_id=True)
        else:
            self._handle.update(now)


def live_view() -> LiveLine | InPlace:
    """What shows a run as it goes on: in a notebook its cell, elsewhere a line on stderr."""
    # Whoever is in a notebook has imported IPython already, and nobody else needs it.
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return LiveLine()
    return InPlace(import_module("IPython.display").display)
