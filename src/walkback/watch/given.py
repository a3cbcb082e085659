"""What a caller tells a monitor beside its network: scores and losses, checked. No torch."""

from __future__ import annotations

from typing import Any

from walkback.errors import InputError
from walkback.protocol.headline import GivenScores
from walkback.protocol.records import Measurements
from walkback.protocol.schema import shortened
from walkback.protocol.scores import FrozenBaseline, Score


def with_scores(measured: Measurements, accuracy: float | None, baseline: FrozenBaseline | None) -> Measurements:
    """The measurements with the scores that the caller gave."""
    known: dict[str, Any] = {"headline_acc": accuracy}
    if baseline is not None:
        known |= {"frozen_baseline_acc": baseline.accuracy, "frozen": baseline.frozen}
    given = {name: value for name, value in known.items() if value is not None}
    if not given:
        return measured
    return Measurements(**{name: getattr(measured, name) for name in Measurements.model_fields} | given)


def checked_loss(loss: Any, epoch: float | None) -> float | None:
    """The training loss of an epoch that a caller gave: a number, NaN and Inf of a run that diverged among them."""
    if loss is None:
        return None
    try:
        if isinstance(loss, bool | str):
            raise TypeError
        number = float(loss)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"loss is {shortened(loss)}; expected the mean training loss of the epoch that ends, one number."
        ) from None
    if epoch is None:
        raise InputError(f"loss is {number:g} without an epoch; expected that of an epoch which ends: pass epoch= too.")
    return number


def accuracy_of_frozen(given: float | Score | FrozenBaseline | None) -> FrozenBaseline | None:
    """The frozen baseline that a caller gave, which a monitor judges by its accuracy."""
    baseline = GivenScores.of(None, None, given).baseline
    if baseline is not None and baseline.accuracy is None:
        raise InputError(
            f"the frozen baseline is in {baseline.measured.unit}, and a monitor judges (d) by accuracy. Leave it out "
            "here, and give it to walkback.diagnose with score=."
        )
    return baseline
