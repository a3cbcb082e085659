"""`walkback.Monitor`: measures during training, keeps a trace, and says when a run is lost.

    monitor = walkback.Monitor(model, held_out_batches, trace="trace.jsonl")
    for epoch in range(1, epochs + 1):
        for batch in loader:
            train_on(batch)
            if monitor.step().stop:                       # measures as often as its budget allows
                break
        if monitor.step(epoch=epoch, accuracy=acc()).stop:  # measures at every epoch's end
            break

The network, its gradients and all random states stay as they were: it trains to the same bits as without a monitor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from walkback.errors import WalkbackError, WalkbackWarning
from walkback.protocol.calling import Calling
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.judge import judge, read
from walkback.protocol.losses import Loss
from walkback.protocol.matching import check_matched
from walkback.protocol.outputs import Logits
from walkback.protocol.panels import panel_named
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.scores import FrozenBaseline, Score
from walkback.protocol.sites import Blocks, Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.budget import DEFAULT_SHARE, Clock, cadence_of
from walkback.watch.functional_tests import shared_out
from walkback.watch.live import Now, live_view
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.policy import Course, Decision, StopPolicy
from walkback.watch.probe import Probe
from walkback.watch.probed import accuracy_of_frozen, checked_loss, identity_of, pass_of, taken, with_scores
from walkback.watch.trace import OpenTrace
from walkback.watch.trace_line import TraceLine, line_of
from walkback.watch.training_pass import LossReduction, TrainingPass

HELD_BATCHES = 4
"""How many of the caller's batches are measured: enough for (c), few enough to measure often."""

Log = Callable[[TraceLine, Decision], None]
"""Something that is told of every measurement, such as `walkback.integrations.tensorboard.TensorBoardLog`."""


class Monitor:
    """Watches one network while it is trained.

    Args:
        model: the network that is being trained.
        batches: labelled, held-out batches, as for `diagnose`; the first `max_batches` are kept.
        trace: a file that gets one JSON line per measurement, after one that says whose it is. A file that holds
            another run, or another network, is refused.
        run: the name of this run in its trace. A run that is started again under the same name goes on with its trace.
        resume: go on with the run that the trace holds, under whatever name; where there is none, begin it.
        stop_on: the letters of the diagnostics whose firing stops the run; the panel's where not given, (a) and (b).
        patience: at how many measurements in a row one must fire.
        warmup: nothing stops the run at an epoch (where none is given: a step) below this.
        every: measure at every so many training steps.
        budget: where `every` is not given, the share of the training time that measuring may take.
        credit: what the method hands to each site, to trace its alignment, as for `diagnose`.
        functional: on how many samples to test the credit too (perturbation ρ and nudge), as for `diagnose`; with a
            budget, in those measurements that half of it pays for, and with `every` in each.
        blocks: as for `diagnose`; so are the next eight.
        stem: what comes before h_0.
        head: what comes after the last site.
        logits: which part of what the model returns.
        forward_kwargs: further arguments for every call.
        loss: per sample; where not given, the model's own where it returns one.
        tokens: how a site of tokens becomes one vector.
        thresholds: where each diagnostic fires.
        frozen_baseline_acc: for (d), which a monitor judges by accuracy.
        max_batches: how many batches a measurement uses.
        reference: where the true gradient comes from, as for `diagnose`; so is the next.
        gradients: False for networks that no loss is backpropagated through.
        panel: which panel decides, as for `diagnose`.
        logs: functions of (line, decision) that are told of every measurement.
        live: show each measurement in one line on stderr; in a notebook in its cell, in place.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Iterable[Any],
        *,
        trace: str | Path | None = None,
        run: str | None = None,
        resume: bool = False,
        stop_on: str | Iterable[str] | None = None,
        patience: int = 1,
        warmup: float = 0,
        every: int | None = None,
        budget: float = DEFAULT_SHARE,
        credit: CreditRule | CreditFunction | None = None,
        functional: int | None = None,
        blocks: Blocks = None,
        stem: Blocks = None,
        head: Blocks = None,
        logits: Logits = None,
        forward_kwargs: Mapping[str, Any] | None = None,
        loss: Loss | None = None,
        tokens: str | TokenReduction | None = None,
        thresholds: DiagnosticThresholds | None = None,
        frozen_baseline_acc: float | Score | FrozenBaseline | None = None,
        max_batches: int = HELD_BATCHES,
        reference: nn.Module | str | None = None,
        gradients: bool = True,
        panel: str | None = None,
        logs: Sequence[Log] = (),
        live: bool = False,
    ) -> None:
        self.panel, stops = panel, panel_named(panel).stops
        self.course = Course(StopPolicy.of(stops if stop_on is None else stop_on, patience, warmup))
        self.clock = Clock()
        self.cadence, self._tests = shared_out(cadence_of(every, budget), self.clock, functional is not None)
        self.thresholds = thresholds or DiagnosticThresholds()
        self.baseline = accuracy_of_frozen(frozen_baseline_acc)
        self.probe = Probe(
            model,
            batches,
            blocks=Parts(blocks, stem, head),
            calling=Calling(forward_kwargs or {}, logits),
            loss=loss,
            tokens=tokens,
            credit=credit,
            max_batches=max_batches,
            reference=reference,
            gradients=gradients,
            functional=functional,
        )
        check_matched(self.baseline, self.probe.model, self.probe.chain)
        self._losses, self._last_written = LossCourse(), self.clock.now()
        self._latest: Measurements | None = None
        self._last: TraceLine | None = None
        self._unmeasured: tuple[Decision, Decision] | None = None
        self.training_pass: TrainingPass | None = None
        self.logs: tuple[Log, ...] = (*logs, live_view()) if live else tuple(logs)
        self.steps = 0
        self._epoch: float | None = None
        self.trace = Path(trace) if trace is not None else None
        self._open_trace: OpenTrace | None = None
        if self.trace is not None:
            own = identity_of(self.probe, run)
            self._open_trace = OpenTrace(self.trace, own, named=run is not None, resume=resume)
            self._resume(self._open_trace.lines)
        self.clock.start()

    @property
    def decision(self) -> Decision:
        """What the last measurement came to, of this process or of the trace that it goes on with."""
        return self.course.decision

    @property
    def report(self) -> DiagnosticReport | None:
        """The last measurement, judged and explained; None where there is none."""
        if self._latest is None:
            return None
        took = self.probe.taken
        remarks, loss = [took.remark] * bool(took.remark), {"loss": took.words}
        return judge(self._latest, self.thresholds, panel=self.panel, warnings=remarks, provenance=loss)

    @property
    def overhead(self) -> float | None:
        """The time spent measuring over that of training, so far."""
        return self.clock.overhead

    def step(
        self,
        *,
        epoch: int | float | None = None,
        accuracy: float | None = None,
        step: int | None = None,
        loss: float | None = None,
    ) -> Decision:
        """Measure if it is time to, and say whether to go on.

        With `accuracy`, `loss`, or an `epoch` that the call before did not have: the end of an epoch, always measured,
        on the held batches. Else a training step, measured when the cadence says so. `loss` is the mean training loss
        of the epoch that ends, for the trace.
        """
        loss = checked_loss(loss, epoch)
        ends_epoch = accuracy is not None or loss is not None or (epoch is not None and epoch != self._epoch)
        self._epoch = epoch if epoch is not None else self._epoch
        if step is not None:
            self.steps = step
        elif not ends_epoch:
            self.steps += 1
        if not ends_epoch and self.training_pass is not None:
            return self._from_training_pass(epoch, self.training_pass)
        if not ends_epoch and not self.cadence.due(self.steps, self.clock):
            return self._as_before
        at = At(epoch=epoch, step=self.steps or None)
        return self._measured(at, "probe", self._probe, accuracy, loss=loss)

    @contextmanager
    def watch_training(
        self, loss_reduction: LossReduction = "mean", loss_scale: float | Callable[[], float] = 1.0
    ) -> Iterator[Monitor]:
        """Read the training passes inside the context, instead of running passes of the monitor's own.

        For networks trained by BP: norms for (a) and (b) at the training steps that the cadence chooses. With every=1
        each step is looked at, and judged and written where it shows something new, by a tenth at the deepest site,
        or comes near to firing. Say how the loss is made of its samples' losses (`mean` or `sum`), and by what it is
        multiplied before `backward`: 1/k for k micro-batches, `scaler.get_scale` of an AMP scaler.
        """
        self.attach(loss_reduction, loss_scale)
        try:
            yield self
        finally:
            self.detach()

    def attach(self, loss_reduction: LossReduction = "mean", loss_scale: float | Callable[[], float] = 1.0) -> None:
        """Begin what `watch_training` does, until `detach`."""
        self.detach()
        self.training_pass = pass_of(self.probe, self.thresholds, loss_reduction, loss_scale)
        self.training_pass.arm(self.cadence.due(self.steps + 1, self.clock))

    def detach(self) -> None:
        """End what `attach` began."""
        if self.training_pass is not None:
            self.training_pass.detach()
            self.training_pass = None

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
            self.steps, self._last = lines[-1].step or 0, lines[-1]

    def _probe(self) -> Measurements:
        return self.probe.measure(self.thresholds.g_norm_floor, self._tests)

    def _from_training_pass(self, epoch: float | None, training_pass: TrainingPass) -> Decision:
        """What the passes since the last step say. Kept short: with every=1 this runs after every training step."""
        decision = self._as_before
        if training_pass.armed:
            begun = self.clock.now()
            measure = taken(training_pass)
            spent, training_pass.spent = self.clock.now() - begun + training_pass.spent, 0.0
            if measure is None:
                self.clock.add(spent)
            else:
                at = At(epoch=epoch, step=self.steps or None)
                decision = self._measured(at, "training", measure, None, spent)
        training_pass.arm(self.cadence.due(self.steps + 1, self.clock))
        return decision

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
            decision = self.course.see(at, readings)
            now, training = self.clock.now(), self.clock.training
            self._last = line_of(
                measured, readings, epoch=at.epoch, step=at.step, source=source, unmeasured=why_not,
                action=decision.action, reason=decision.reason, seconds=now - self._last_written, loss=loss,
                overhead=self.clock.measuring / training if training > 0 else None,
            )  # fmt: skip
            self._last_written = now
            self._tell(self._last, decision)
        return decision

    def _repr_html_(self) -> str:
        return Now(self._last, self.decision)._repr_html_()

    def _tell(self, line: TraceLine, decision: Decision) -> None:
        if self._open_trace is not None:
            self._open_trace.append(line)
        for log in self.logs:
            log(line, decision)
