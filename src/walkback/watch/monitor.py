"""`walkback.Monitor`: measures during training, keeps a trace, and says when a run is lost.

The network, its gradients and all random states stay as they were: it trains to the same bits as without a monitor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from walkback.watch.journal import Log as Log
from walkback.watch.moment import At
from walkback.watch.policy import Decision
from walkback.watch.probe import Probe
from walkback.watch.probed import identity_of, taken
from walkback.watch.training_pass import TrainingPass
from walkback.watch.training_watcher import TrainingWatcher
from walkback.watch.watcher import HELD_BATCHES as HELD_BATCHES
from walkback.watch.watcher import Watcher


class Monitor(TrainingWatcher, Watcher):
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
        ends_epoch, accuracy, loss = self._ends_epoch(epoch, accuracy, step, loss)
        if not ends_epoch and self.training_pass is not None:
            return self._from_training_pass(epoch, self.training_pass)
        if not ends_epoch and not self.cadence.due(self.steps, self.clock):
            return self._as_before
        at = At(epoch=epoch, step=self.steps or None)
        return self._measured(at, "probe", self._probe, accuracy, loss=loss)

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
