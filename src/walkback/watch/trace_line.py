"""One line of a trace: what was measured at one moment of a run. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from walkback.protocol.diagnostics.known import traced, traced_intervals
from walkback.protocol.records import Alignment, Interval, Measurements, Reading, ReferenceCheck, State
from walkback.protocol.schema import Counts, Number, Numbers, Record
from walkback.watch.moment import At

DIGITS = 6


FUNCTIONAL = ("functional_samples", "no_functional")
"""What a line says of the functional tests beside their values."""
COUNTED = ("hiddens", "grads", "logits")
"""Of what a line counts the samples with a NaN or Inf."""


class TracedIntervals(Record):
    """Intervals of one quantity, in few bytes: how they were made is said once."""

    level: Number
    how: tuple[str, ...]
    """Of each; one word for all of them where they were made alike."""
    bounds: tuple[tuple[Number, Number], ...]
    per_site: bool = True
    """Whether there is one for each site, or one alone."""

    @classmethod
    def of(cls, found: Interval | Sequence[Interval]) -> TracedIntervals | None:
        """Take down one, or one for each site; None where there are none."""
        every = (found,) if isinstance(found, Interval) else tuple(found)
        if not every:
            return None
        how = tuple(interval.how for interval in every)
        return cls(
            level=every[0].level,
            how=how[:1] if len(set(how)) == 1 else how,
            bounds=tuple((interval.low, interval.high) for interval in every),
            per_site=not isinstance(found, Interval),
        )

    @model_validator(mode="after")
    def _fit(self) -> TracedIntervals:
        if len(self.how) not in (1, len(self.bounds)) or not (self.bounds and (self.per_site or len(self.bounds) == 1)):
            raise ValueError(f"{len(self.bounds)} intervals with {len(self.how)} words on how they were made")
        return self

    def intervals(self) -> tuple[Interval, ...] | Interval:
        """As `Measurements` holds them."""
        how = self.how * len(self.bounds) if len(self.how) == 1 else self.how
        made = tuple(
            Interval(low=low, high=high, level=self.level, how=words)
            for (low, high), words in zip(self.bounds, how, strict=True)
        )
        return made if self.per_site else made[0]


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
    perturbation_rho: Numbers | None = None
    scaled_rho: Numbers | None = None
    nudge: Numbers | None = None
    unit_nudge: Numbers | None = None
    functional_samples: int | None = None
    no_functional: str = ""
    """Why ρ and nudge are not there, where they were asked for."""
    intervals: dict[str, TracedIntervals] = Field(default_factory=dict)
    """Of the quantities whose intervals are traced, by the name of the field that holds them."""
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
        fields |= {name: kept.intervals() for name, kept in self.intervals.items() if name in traced_intervals()}
        fields |= {name: getattr(self, name) for name in FUNCTIONAL}
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
    fields |= {name: getattr(measured, name) for name in FUNCTIONAL}
    if measured.headline_acc is not None:
        fields["accuracy"] = measured.headline_acc
    if measured.alignment is not None:
        fields |= {"alignment": measured.alignment.sites, "deep_alignment": measured.alignment.deep}
    check = measured.reference_check
    short: dict[str, Any] = rounded(fields)
    return short | {
        "reference_check": None if check is None or check.passed else check,
        "intervals": _intervals(measured),
        "nonfinite": nonfinite_counts(measured),
        "samples": measured.samples,
        "fired": tuple(r.letter for r in readings if r.state is State.FIRE),
    }


def _intervals(measured: Measurements) -> dict[str, TracedIntervals]:
    known = {name: found for name in traced_intervals() if (found := measured.value_of(name)) is not None}
    kept = ((name, TracedIntervals.of(found)) for name, found in known.items())
    return {name: each.model_copy(update={"bounds": rounded(each.bounds)}) for name, each in kept if each is not None}


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
