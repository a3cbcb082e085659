"""The one-line view of a run that is being watched."""

from __future__ import annotations

import sys

from walkback.protocol.wording import figure
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine

CLEAR = "\r\x1b[K"


def one_line(line: TraceLine, decision: Decision) -> str:
    """The moment, accuracy, ‖h_L‖, ‖g_L‖, what has fired since when, and a stop with its reason."""
    parts = [str(line.at)]
    if line.accuracy is not None:
        parts.append(f"acc {line.accuracy:.4f}")
    for name, norms in (("‖h_L‖", line.residual_norms), ("‖g_L‖", line.bp_grad_norms)):
        if norms:
            parts.append(f"{name} {figure(norms[-1])}")
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
