"""A renderer: the whole report in one line, for a log or a commit message."""

from __future__ import annotations

from walkback import DiagnosticReport


def render(report: DiagnosticReport) -> str:
    """The method, the outcome, and the letter and state of every reading."""
    states = ", ".join(f"({reading.letter}) {reading.state.value.lower()}" for reading in report.readings)
    return f"{report.method_name or 'network'}: {report.outcome} by {report.panel}; {states}"
