"""`walkback.jax.Monitor`: measures during training, keeps a trace, and says when a run is lost.

monitor = walkback.jax.Monitor(apply, params, blocks, held_out_batches, trace="trace.jsonl", stem=stem, head=head)
for epoch in range(1, epochs + 1):
    for batch in loader:
        params, state = update(params, state, batch)
        if monitor.step(params).stop:                         # measures as often as its budget allows
            break
    if monitor.step(params, epoch=epoch, accuracy=acc).stop:  # measures at every epoch's end
        break
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from walkback.jax.measuring import check_matched, shapes_of
from walkback.jax.network import Stage
from walkback.jax.probe import Probe
from walkback.protocol.network_shapes import fingerprint
from walkback.protocol.records import FrozenBaseline, Score
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.budget import DEFAULT_SHARE
from walkback.watch.journal import Log
from walkback.watch.moment import At
from walkback.watch.policy import Decision
from walkback.watch.trace_identity import Identity
from walkback.watch.watcher import HELD_BATCHES, Watcher


class Monitor(Watcher):
    """Watches one network while it is trained.

    Args:
        apply: as for `measure`; so are the next three, and all that is not named here.
        params: the parameters at the start; `step` takes those of the moment.
        blocks: the residual blocks.
        batches: labelled, held-out batches; the first `max_batches` are kept.
        trace: a file that gets one JSON line per measurement, after one that says whose it is. A file that holds
            another run, or another network, is refused.
        run: the name of this run in its trace. A run that is started again under the same name goes on with its trace.
        resume: go on with the run that the trace holds, under whatever name; where there is none, begin it.
        stop_on: the letters of the diagnostics whose firing stops the run; the panel's where not given, (a) and (b).
        patience: at how many measurements in a row one must fire.
        warmup: nothing stops the run at an epoch (where none is given: a step) below this.
        every: measure at every so many training steps.
        budget: where `every` is not given, the share of the training time that measuring may take.
        functional: on how many samples to test the credit too; with a budget, in those measurements that half of it
            pays for, and with `every` in each.
        thresholds: where each diagnostic fires.
        frozen_baseline_acc: for (d), which a monitor judges by accuracy.
        max_batches: how many batches a measurement uses.
        panel: which panel decides.
        logs: functions of (line, decision) that are told of every measurement.
        live: show each measurement in one line on stderr.
        **measuring: what else `measure` takes: stem, head, loss, credit, tokens, reference, gradients.
    """

    def __init__(
        self,
        apply: Stage,
        params: Any,
        blocks: Any,
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
        functional: int | None = None,
        thresholds: DiagnosticThresholds | None = None,
        frozen_baseline_acc: float | Score | FrozenBaseline | None = None,
        max_batches: int = HELD_BATCHES,
        panel: str | None = None,
        logs: Sequence[Log] = (),
        live: bool = False,
        **measuring: Any,
    ) -> None:
        super().__init__(
            panel=panel, stop_on=stop_on, patience=patience, warmup=warmup, every=every, budget=budget,
            tested=functional is not None, thresholds=thresholds, frozen_baseline_acc=frozen_baseline_acc, logs=logs,
            live=live,
        )  # fmt: skip
        check_matched(self.baseline, params)
        self.probe = Probe(apply, params, blocks, batches, max_batches, functional, measuring)
        self._begin(trace, lambda: self._identity(params, run), named=run is not None, resume=resume)

    def _identity(self, params: Any, run: str | None) -> Identity:
        shapes = shapes_of(params)
        values, sites = sum(map(math.prod, shapes.values())), len(self.probe.network.names) + 1
        return Identity.new(run, fingerprint(shapes), self.probe.provenance["model"], values, sites)

    def _about(self) -> tuple[list[str], dict[str, str]]:
        return self.probe.remarks, self.probe.provenance

    def step(
        self,
        params: Any,
        *,
        epoch: int | float | None = None,
        accuracy: float | None = None,
        step: int | None = None,
        loss: float | None = None,
    ) -> Decision:
        """Measure if it is time to, and say whether to go on.

        With `accuracy`, `loss`, or an `epoch` that the call before did not have: the end of an epoch, always measured.
        Else a training step, measured when the cadence says so. `loss` is the mean training loss of the epoch that
        ends, for the trace.
        """
        ends_epoch, accuracy, loss = self._ends_epoch(epoch, accuracy, step, loss)
        if not ends_epoch and not self.cadence.due(self.steps, self.clock):
            return self._as_before
        at = At(epoch=epoch, step=self.steps or None)
        floor = self.thresholds.g_norm_floor
        return self._measured(at, "probe", lambda: self.probe.measure(params, floor, self._tests), accuracy, loss=loss)
