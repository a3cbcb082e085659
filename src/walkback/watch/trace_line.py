"""One line of a trace: what was measured at one moment of a run. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from walkback.protocol.diagnostics.known import traced
from walkback.protocol.records import Alignment, Measurements, Reading, ReferenceCheck, State
from walkback.protocol.schema import Counts, Number, Numbers
from walkback.watch.moment import At

DIGITS = 6


COUNTED = ("hiddens", "grads", "logits")
"""Of what a line counts the samples with a NaN or Inf."""


class TraceLine(At):
    """What was measured at one moment of a run."""

    model_config = ConfigDict(extra="ignore")

    accuracy: Number | None = None
    perplexity: Number | None = None
    """Of language models, on the held batches."""
    seconds: Number | None = None
    """For the training since the line before, and for measuring this one."""
    loss: Number | None = None
    learning_rate: Number | None = None
    residual_norms: Numbers | None = None
    bp_grad_norms: Numbers | None = None
    site_stabilities: Numbers | None = None
    drift_shares: Numbers | None = None
    scale_free_gradients: Numbers | None = None
    error_size: Number | None = None
    reference_fidelity: Numbers | None = None
    alignment: Numbers | None = None
    deep_alignment: Number | None = None
    frozen_baseline_acc: Number | None = None
    nonfinite: dict[str, Counts] = Field(default_factory=dict)
    """How many samples had a NaN or Inf: `hiddens` and `grads` at each site, and `logits`; zeros left out."""
    samples: int | None = None
    source: str = ""
    """`probe`: held batches in eval mode; `training`: the training pass itself, in train mode."""
    overhead: Number | None = None
    """The monitor's time so far over that of training."""
    fired: tuple[str, ...] = ()
    """The letters of the diagnostics that fired when the line was written."""
    action: str = ""
    reason: str = ""
    unmeasured: str = ""
    """Why there are no diagnostics, where there are none."""
    extra: dict[str, float | tuple[float, ...]] = Field(default_factory=dict)
    """Traced quantities of diagnostics beyond walkback's own, by name."""
    reference_check: ReferenceCheck | None = None
    """What is known of the reference gradient, where it did not pass its check."""

    @field_validator("nonfinite")
    @classmethod
    def _counted(cls, counts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """What is counted under another name, or below zero, would be read by nobody."""
        for name, values in counts.items():
            if name not in COUNTED or any(count < 0 for count in values):
                raise ValueError(f"expected counts of {', '.join(COUNTED)} from 0 on, not {name!r}: {list(values)}")
        return counts

    @property
    def at(self) -> At:
        """The moment alone."""
        return At(epoch=self.epoch, step=self.step)

    @property
    def sites(self) -> int:
        """How many sites were measured; 0 where none was."""
        return len(self.residual_norms or self.bp_grad_norms or ())

    def measurements(self) -> Measurements:
        """The figures to judge; what the line lacks stays not measured."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in traced() if name in TraceLine.model_fields}
        fields["extra"] = self.extra
        if self.site_stabilities:
            fields["stability_layer"] = middle = (len(self.site_stabilities) - 1) // 2
            fields["cross_batch_stability"] = self.site_stabilities[middle]
        for name in ("hiddens", "grads"):
            fields[f"nonfinite_{name}"] = self.nonfinite.get(name)
        fields["nonfinite_logits"] = sum(self.nonfinite.get("logits", ()))
        fields["reference_check"] = self.reference_check
        if self.alignment is not None:
            fields["alignment"] = Alignment(sites=self.alignment, deep=self.deep_alignment)
        return Measurements(**fields, headline_acc=self.accuracy, samples=self.samples)

    def line(self) -> str:
        """The record as one line of JSON; what says nothing is left out."""
        return self.model_dump_json(exclude_defaults=True)


def line_of(measured: Measurements, readings: Sequence[Reading], **about: Any) -> TraceLine:
    """A line from a measurement and its readings, in six significant digits."""
    return TraceLine(**rounded({name: value for name, value in about.items() if value is not None}), **traced_figures(
        measured, readings
    ))  # fmt: skip


def traced_figures(measured: Measurements, readings: Sequence[Reading]) -> dict[str, Any]:
    """What a line keeps of a measurement, in six significant digits: what its diagnostics declare to be traced."""
    kept = {name: value for name in traced() if (value := measured.value_of(name)) is not None}
    fields = {name: value for name, value in kept.items() if name in TraceLine.model_fields}
    fields["extra"] = {name: value for name, value in kept.items() if name not in TraceLine.model_fields}
    if measured.headline_acc is not None:
        fields["accuracy"] = measured.headline_acc
    if measured.alignment is not None:
        fields |= {"alignment": measured.alignment.sites, "deep_alignment": measured.alignment.deep}
    check = measured.reference_check
    short: dict[str, Any] = rounded(fields)
    return short | {
        "reference_check": None if check is None or check.passed else check,
        "nonfinite": nonfinite_counts(measured),
        "samples": measured.samples,
        "fired": tuple(r.letter for r in readings if r.state is State.FIRE),
    }


def nonfinite_counts(measured: Measurements) -> dict[str, tuple[int, ...]]:
    """How many values were NaN or Inf, site by site; what had none is left out."""
    counts = {
        "hiddens": tuple(measured.nonfinite_hiddens or ()),
        "grads": tuple(measured.nonfinite_grads or ()),
        "logits": (measured.nonfinite_logits or 0,),
    }
    return {name: count for name, count in counts.items() if any(count)}


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """Numbers, in any nesting, to that many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else value
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(rounded(entry, digits) for entry in value)
    return value
