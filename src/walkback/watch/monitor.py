"""`walkback.Monitor`: measures during training, keeps a trace, and says when a run is lost.

The network, its gradients and all random states stay as they were: it trains to the same bits as without a monitor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from walkback.errors import WalkbackError, WalkbackWarning
from walkback.protocol.calling import Calling
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.headline import checked_accuracy
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
from walkback.watch.journal import Journal, Log
from walkback.watch.live import Now
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.policy import Course, Decision, StopPolicy
from walkback.watch.probe import Probe
from walkback.watch.probed import accuracy_of_frozen, checked_loss, identity_of, taken, with_scores
from walkback.watch.trace_line import TraceLine
from walkback.watch.training_pass import TrainingPass
from walkback.watch.training_watcher import TrainingWatcher

HELD_BATCHES = 4
"""How many of the caller's batches are measured: enough for (c), few enough to measure often."""


class Monitor(TrainingWatcher):
    """Watches one network while it is trained, and says when the run is lost.

    Call `step` after every training step, and with `epoch=` at the end of every epoch.

    Args:
        model: the network that is being trained.
        batches: labelled, held-out batches, as for `diagnose`; the first `max_batches` are kept.

    Args: The trace
        trace: a file that gets one JSON line per measurement, after one that says whose it is. A file that holds
            another run, or another network, is refused. Nothing is written where it is None.
        run: the name of this run in its trace. A run that is started again under the same name resumes its trace.
        resume: True resumes the run that the trace holds, under whatever name, and begins one where there is none.
        logs: functions of (line, decision) that are told of every measurement.
        live: True shows each measurement in one line on stderr, or in place in the cell of a notebook.

    Args: When it measures, and when it stops the run
        stop_on: the letters of the diagnostics whose firing stops the run; those of the panel where None, which are (a)
            and (b). An empty string never stops it.
        patience: how many measurements in a row must fire.
        warmup: nothing stops the run below this epoch (below this step, where no epochs are given).
        every: measure at every so many training steps; None measures as the budget allows.
        budget: where `every` is not given, the share of the training time that measuring may take, 0.02 by default.

    Args: What it measures
        credit: what the method hands to each site, to trace its alignment, as for `diagnose`.
        functional: on how many samples to test the credit too (perturbation ρ and nudge), as for `diagnose`: with a
            budget in the measurements that half of it pays for, with `every` in each.
        max_batches: how many batches a measurement uses, 4 by default.
        frozen_baseline_acc: for (d), which a monitor judges by accuracy.
        blocks: as for `diagnose`.
        stem: as for `diagnose`.
        head: as for `diagnose`.
        logits: as for `diagnose`.
        forward_kwargs: as for `diagnose`.
        loss: as for `diagnose`.
        tokens: as for `diagnose`.
        reference: as for `diagnose`.
        gradients: as for `diagnose`.
        thresholds: where each diagnostic fires; the published values where not given.
        panel: which panel decides, as for `diagnose`.

    Raises:
        BatchError: a batch cannot be measured.
        BlocksError: the blocks were not found, or are not reached.
        BaselineError: the frozen baseline is of another network, or of other blocks.
        RecordError: the trace is corrupt.
        InputError: another argument cannot be used, or the trace is of another run or network.

    Cost:
        One forward and one backward pass over the kept batches for each measurement. `watch_training` needs none.

    Caveat:
        A network that cannot be measured at some step is still trained: a `WalkbackWarning` says why.

    Examples:
        >>> import torch, walkback
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)])
        >>> batches = [(torch.randn(64, 8), torch.randint(8, (64,)))]
        >>> monitor = walkback.Monitor(model, batches, every=10)
        >>> for epoch in range(2):  # train here; call monitor.step() after every batch
        ...     if monitor.step(epoch=epoch).stop:
        ...         break
        >>> monitor.decision.action
        'continue'
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
        self._losses = LossCourse()
        self._latest: Measurements | None = None
        self._unmeasured: tuple[Decision, Decision] | None = None
        self.steps = 0
        self._epoch: float | None = None
        self._journal = Journal(self.clock, logs, live)
        self.trace = Path(trace) if trace is not None else None
        if self.trace is not None:
            own = identity_of(self.probe, run)
            self._resume(self._journal.open(self.trace, own, named=run is not None, resume=resume))
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
        took = self.probe.taken
        remarks, loss = [took.remark] * bool(took.remark), {"loss": took.words}
        return judge(self._latest, self.thresholds, panel=self.panel, warnings=remarks, provenance=loss)

    @property
    def logs(self) -> tuple[Log, ...]:
        """The functions that are told of every measurement."""
        return self._journal.logs

    @property
    def overhead(self) -> float | None:
        """The time spent measuring divided by that of training, so far; None before any training."""
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

        A call with `accuracy`, `loss`, or an `epoch` that the call before did not have is the end of an epoch: it
        always measures, on the held batches. Any other call is a training step, which is measured as `every` or
        `budget` says.

        Args:
            epoch: which epoch it is.
            accuracy: the test accuracy of the epoch that ends, in [0, 1], for (d) and the trace.
            step: which training step it is; counted here where not given.
            loss: the mean training loss of the epoch that ends, for the trace; it needs `epoch`.

        Returns:
            Whether to stop, and why. Its `measured` says whether this call measured.

        Raises:
            InputError: `accuracy` is no share in [0, 1]; `loss` is no number, or has no epoch.
            RecordError: the trace cannot be written.
        """
        loss, accuracy = checked_loss(loss, epoch), checked_accuracy("accuracy", accuracy)
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
            decision = self.course.see(at, readings, measured=not why_not)
            self._journal.tell(measured, readings, decision, source, why_not, loss)
        return decision

    def _repr_html_(self) -> str:
        return Now(self._journal.last, self.decision)._repr_html_()
