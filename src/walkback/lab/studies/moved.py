"""A network under one threshold that is moved: the reading that the threshold belongs to is made anew, and no other.

A sweep asks this hundreds of times of every network. Judging everything again each time took nine tenths of the time
that a page of many networks takes.
"""

from __future__ import annotations

from typing import NamedTuple

from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.diagnostics.of_others import read_by
from walkback.protocol.judge import read
from walkback.protocol.panels.base import Panel
from walkback.protocol.records import DiagnosticReport, Measurements, Reading, State
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.words import NON_FINITE, Outcome
from walkback.registry import PANELS


class Moved(NamedTuple):
    """What one threshold would have given."""

    fired: bool
    outcome: Outcome


class Judged(NamedTuple):
    """A network with all its readings, to be asked again and again."""

    measured: Measurements
    readings: tuple[Reading, ...]
    panel: Panel
    outcome: Outcome

    @classmethod
    def of(cls, report: DiagnosticReport, limits: DiagnosticThresholds) -> Judged:
        """From a report that was judged under these limits."""
        measured = report.measurements
        return cls(measured, read(measured, limits), PANELS.load(report.panel), report.outcome)

    def under(self, limits: DiagnosticThresholds, letter: str) -> Moved:
        """Under limits that differ in thresholds of one diagnostic alone."""
        readings = tuple(self._again(r, limits) if r.letter == letter else r for r in self.readings)
        fired = any(reading.letter == letter and reading.state is State.FIRE for reading in readings)
        return Moved(fired, self.panel.verdict(readings, False).outcome)

    def _again(self, reading: Reading, limits: DiagnosticThresholds) -> Reading:
        one = by_letter(reading.letter)
        # What is not finite fires wherever the threshold is.
        if one is None or reading.reason == NON_FINITE:
            return reading
        return read_by(one, limits.model_extra, self.measured)
