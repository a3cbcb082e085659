"""What a monitor asks of its probe before training begins: whose trace it writes, and whether training passes serve."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

from walkback.errors import InputError, WalkbackError, WalkbackWarning
from walkback.protocol.parameters import fingerprint, shapes_of
from walkback.protocol.records import Measurements
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.probe import Probe
from walkback.watch.trace_identity import Identity
from walkback.watch.training_pass import LossReduction, TrainingPass


def identity_of(probe: Probe, run: str | None) -> Identity:
    """What the trace of a run begins with."""
    model, shapes = probe.model, shapes_of(probe.model)
    values = sum(map(math.prod, shapes.values()))
    return Identity.new(run, fingerprint(shapes), type(model).__name__, values, len(probe.chain.taps))


def pass_of(
    probe: Probe,
    thresholds: DiagnosticThresholds,
    loss_reduction: LossReduction,
    loss_scale: float | Callable[[], float],
) -> TrainingPass:
    """What reads the training passes; a network whose passes do not hold the true gradient is refused."""
    if probe.compiled:
        raise InputError(
            "the model is compiled, and hooks in a compiled model do not run. Leave out watch_training: the "
            "monitor's own measurements work."
        )
    bent = probe.bent_training_pass()
    if bent:
        raise InputError(
            f"{bent} The training pass does not hold the true gradient then. Leave out watch_training: the "
            "monitor's own measurements work."
        )
    if any(module._backward_hooks or module._backward_pre_hooks for module in probe.model.modules()):
        warnings.warn(
            "modules of the network have backward hooks: if one of them changes the gradient, what watch_training "
            "reads is not the true one. The monitor's own measurements leave them out.",
            WalkbackWarning,
            stacklevel=4,
        )
    return TrainingPass(
        probe.model, probe.chain, probe.reduction, thresholds, loss_reduction, loss_scale, probe.calling.logits
    )


def taken(training_pass: TrainingPass) -> Callable[[], Measurements] | None:
    """What the passes showed, None for nothing; figures that are refused raise where they are asked for."""
    try:
        measured = training_pass.take()
    except WalkbackError as error:
        refused = error

        def refuse() -> Measurements:
            raise refused

        return refuse
    return None if measured is None else lambda: measured
