"""Traces as they grow: every line is read and judged once, and few bytes of it are kept. No torch."""

from __future__ import annotations

from pathlib import Path

from walkback.errors import RecordError
from walkback.protocol.judge import read
from walkback.protocol.records import Measurements
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.policy import StopPolicy
from walkback.watch.trace import NamedRun, RunInTrace, Runs, named
from walkback.watch.trace_file import GrowingFile
from walkback.watch.trace_identity import Identity
from walkback.watch.trace_line import TraceLine
from walkback.watch.trail import Trail


class RunTrail(RunInTrace):
    """One run in a trace as a trail."""

    def __init__(
        self, identity: Identity | None, told_by: str, thresholds: DiagnosticThresholds, policy: StopPolicy | None
    ) -> None:
        super().__init__(identity, told_by)
        self.trail = Trail(policy)
        self._losses = LossCourse()
        self.holds_figures = False
        """Whether any line holds norms, or says why there are none."""
        self._thresholds, self._sites = thresholds, 0

    def add(self, line: TraceLine, measured: Measurements) -> None:
        """Judge the line."""
        measured = self._losses.with_decrease(line.at, line.loss, measured)
        self.trail.add(line.at, measured, read(measured, self._thresholds), line.seconds, line.unmeasured)
        self._sites = line.sites or self._sites
        self.holds_figures |= bool(line.residual_norms or line.bp_grad_norms or line.unmeasured)

    def __len__(self) -> int:
        return len(self.trail)

    @property
    def first(self) -> At:
        """The first moment."""
        return self.trail.at(0)

    @property
    def sites(self) -> int:
        """Of the last line that had any."""
        return self._sites


class TraceFollower:
    """A trace, followed: `look` takes in what is new."""

    def __init__(
        self, path: Path, thresholds: DiagnosticThresholds | None = None, policy: StopPolicy | None = None
    ) -> None:
        self.path = path
        self._thresholds, self._policy = thresholds or DiagnosticThresholds(), policy
        self._file, self._runs = GrowingFile(path), self._none()

    def _none(self) -> Runs[RunTrail]:
        return Runs(self.path, lambda identity, told_by: RunTrail(identity, told_by, self._thresholds, self._policy))

    def look(self, to_the_end: bool = False) -> list[NamedRun[RunTrail]]:
        """The runs as they are now; a line that is being written is left for the next look, or read `to_the_end`."""
        if self._file.was_replaced():  # a run of the zoo that goes back to a checkpoint writes its trace anew
            self._runs = self._none()
        for number, text in self._file.new_lines(to_the_end):
            self._runs.take(number, text)
        return named(self._runs.found, self.path)

    def check_measured(self) -> None:
        """Raise for a file whose lines hold no figure at all: it is no trace."""
        found = self._runs.found
        if found and not any(run.holds_figures for run in found):
            raise RecordError(
                f"{self.path} is not a trace: its lines hold neither norms nor gradients. Give what a monitor wrote."
            )
