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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from walkback.protocol.calling import Calling
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.losses import Loss
from walkback.protocol.matching import check_matched
from walkback.protocol.outputs import Logits
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.scores import FrozenBaseline, Score
from walkback.protocol.sites import Blocks, Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.budget import DEFAULT_SHARE
from walkback.watch.moment import At
from walkback.watch.policy import Decision
from walkback.watch.probe import Probe
from walkback.watch.probed import identity_of, pass_of, taken
from walkback.watch.training_pass import LossReduction, TrainingPass
from walkback.watch.watcher import HELD_BATCHES as HELD_BATCHES
from walkback.watch.watcher import Log as Log
from walkback.watch.watcher import Watcher


class Monitor(Watcher):
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
        live: show each measurement in one line on stderr.
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
        super().__init__(
            panel=panel, stop_on=stop_on, patience=patience, warmup=warmup, every=every, budget=budget,
            tested=functional is not None, thresholds=thresholds, frozen_baseline_acc=frozen_baseline_acc, logs=logs,
            live=live,
        )  # fmt: skip
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
        self.training_pass: TrainingPass | None = None
        self._begin(trace, lambda: identity_of(self.probe, run), named=run is not None, resume=resume)

    def _about(self) -> tuple[list[str], dict[str, str]]:
        taken = self.probe.taken
        return [taken.remark] * bool(taken.remark), {"loss": taken.words}

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
        ends_epoch, loss = self._ends_epoch(epoch, accuracy, step, loss)
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
        or comes near to firing. Say how the
        loss is made of its samples' losses (`mean` or `sum`), and by what it is multiplied before `backward`: 1/k for
        k micro-batches, `scaler.get_scale` of an AMP scaler.
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
