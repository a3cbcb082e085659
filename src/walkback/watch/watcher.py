"""What every monitor does, whichever engine measures: when to measure, what to decide, what to write. No torch.

The monitor of an engine hands `_measured` a function that measures; the rest of a run's course is here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from walkback.errors import WalkbackError, WalkbackWarning
from walkback.protocol.headline import checked_accuracy
from walkback.protocol.judge import judge, read
from walkback.protocol.panels import panel_named
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.scores import FrozenBaseline, Score
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.budget import Clock, cadence_of
from walkback.watch.functional_tests import shared_out
from walkback.watch.given import accuracy_of_frozen, checked_loss, with_scores
from walkback.watch.journal import Journal, Log
from walkback.watch.live import Now
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.policy import Course, Decision, StopPolicy
from walkback.watch.trace_identity import Identity
from walkback.watch.trace_line import TraceLine

HELD_BATCHES = 4
"""How many of the caller's batches are measured: enough for (c), few enough to measure often."""


class Watcher:
    """The course of one run: what was measured, what it came to, and the trace of it."""

    def __init__(
        self,
        *,
        panel: str | None,
        stop_on: str | Iterable[str] | None,
        patience: int,
        warmup: float,
        every: int | None,
        budget: float,
        tested: bool,
        thresholds: DiagnosticThresholds | None,
        frozen_baseline_acc: float | Score | FrozenBaseline | None,
        logs: Sequence[Log],
        live: bool,
    ) -> None:
        self.panel, stops = panel, panel_named(panel).stops
        self.course = Course(StopPolicy.of(stops if stop_on is None else stop_on, patience, warmup))
        self.clock = Clock()
        self.cadence, self._tests = shared_out(cadence_of(every, budget), self.clock, tested)
        self.thresholds = thresholds or DiagnosticThresholds()
        self.baseline = accuracy_of_frozen(frozen_baseline_acc)
        self._losses = LossCourse()
        self._latest: Measurements | None = None
        self._unmeasured: tuple[Decision, Decision] | None = None
        self.steps = 0
        self._epoch: float | None = None
        self._journal = Journal(self.clock, logs, live)
        self.trace: Path | None = None

    def _begin(self, trace: str | Path | None, identity: Callable[[], Identity], named: bool, resume: bool) -> None:
        """Open the trace, go on with the run that it holds if that was asked for, and start the clock."""
        if trace is not None:
            self.trace = Path(trace)
            self._resume(self._journal.open(self.trace, identity(), named=named, resume=resume))
        self.clock.start()

    @property
    def decision(self) -> Decision:
        """What the last measurement led to, in this process or in the trace that it resumed."""
        return self.course.decision

    @property
    def report(self) -> DiagnosticReport | None:
        """The last measurement, judged and explained; None before the first, and where it could not be made."""
        if self._latest is None:
            return None
        remarks, about = self._about()
        return judge(self._latest, self.thresholds, panel=self.panel, warnings=remarks, provenance=about)

    @property
    def logs(self) -> tuple[Log, ...]:
        """The functions that are told of every measurement."""
        return self._journal.logs

    @property
    def overhead(self) -> float | None:
        """The time spent measuring divided by that of training, so far; None before any training."""
        return self.clock.overhead

    def _about(self) -> tuple[list[str], dict[str, str]]:
        """Remarks, and what made the numbers, for the report."""
        return [], {}

    def _ends_epoch(
        self, epoch: float | None, accuracy: float | None, step: int | None, loss: float | None
    ) -> tuple[bool, float | None, float | None]:
        """Whether a call is the end of an epoch, its accuracy and training loss, checked; training steps are counted."""
        loss, accuracy = checked_loss(loss, epoch), checked_accuracy("accuracy", accuracy)
        ends_epoch = accuracy is not None or loss is not None or (epoch is not None and epoch != self._epoch)
        self._epoch = epoch if epoch is not None else self._epoch
        if step is not None:
            self.steps = step
        elif not ends_epoch:
            self.steps += 1
        return ends_epoch, accuracy, loss

    @property
    def _as_before(self) -> Decision:
        """The last decision, for a call that did not measure; made once for each."""
        if self._unmeasured is None or self._unmeasured[0] is not self.decision:
            self._unmeasured = self.decision, self.decision.model_copy(update={"measured": False})
        return self._unmeasured[1]

    def _resume(self, lines: Sequence[TraceLine]) -> None:
        for line in lines:
            measured = self._losses.with_decrease(line.at, line.loss, line.measurements())
            self.course.see(line.at, read(measured, self.thresholds))
        if lines:
            self.steps = lines[-1].step or 0

    def _measured(
        self, at: At, source: str, measure: Callable[[], Measurements], accuracy: float | None,
        already_spent: float = 0, loss: float | None = None,
    ) -> Decision:  # fmt: skip
        """Measure, judge, decide, write."""
        with self.clock.measured(already_spent):
            try:
                measured, why_not = with_scores(measure(), accuracy, self.baseline), ""
            except WalkbackError as error:
                # A network that cannot be measured is still being trained, and goes on.
                measured, why_not = Measurements(), str(error)
                warnings.warn(f"{at}: not measured: {error}", WalkbackWarning, stacklevel=3)
            measured = self._losses.with_decrease(at, loss, measured)
            self._latest = None if why_not else measured
            readings = read(measured, self.thresholds) if not why_not else ()
            decision = self.course.see(at, readings, measured=not why_not)
            self._journal.tell(measured, readings, decision, source, why_not, loss)
        return decision

    def _repr_html_(self) -> str:
        return Now(self._journal.last, self.decision)._repr_html_()
