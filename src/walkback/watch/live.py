"""The one-line view of a run that is being watched."""

from __future__ import annotations

import sys

from walkback.protocol.diagnostics.known import scalars
from walkback.protocol.diagnostics.of_others import read_by
from walkback.protocol.wording import signed, written
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine

CLEAR = "\r\x1b[K"


def one_line(line: TraceLine, decision: Decision) -> str:
    """The moment, accuracy, the live scalars of the diagnostics, what has fired since when, a stop with its reason."""
    parts = [str(line.at)]
    if line.accuracy is not None:
        parts.append(f"acc {line.accuracy:.4f}")
    measured = line.measurements()
    for one, scalar in scalars().values():
        if not scalar.live:
            continue
        value = scalar.read(measured, read_by(one, {}, measured).value if scalar.of is None else None)
        if value is not None:
            parts.append(f"{scalar.heading} {signed(value) if scalar.signed else written(value)}")
    if decision.first_fired:
        parts.append("fired " + ", ".join(f"({letter}) {at}" for letter, at in decision.first_fired.items()))
    if line.overhead is not None:
        parts.append(f"monitor {100 * line.overhead:.1f} %")
    if decision.stop:
        parts.append(f"STOP: {decision.reason}")
    return "  ".join(parts)


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
