"""A verdict from records that lack some of the measurements, with what they do and do not prove. No torch.

(a) from the size of the stream at some sites only. Between two known sites i < j the largest growth of a block is at
least the geometric mean (‖h_j‖/‖h_i‖)^(1/(j−i)), so a mean above the threshold proves FIRE. Nothing bounds the largest
growth from above: a block may multiply the stream by any factor if others shrink it again. So these numbers never
prove PASS, and what is not proven is UNDECIDED, with how much the other blocks would have to do for (a) to fire.

(b) at another site than the deepest is read as a proxy, and named as one. (c) is not measured unless it was recorded;
(d) needs two accuracies, and is exact.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pydantic import Field

from walkback.errors import InputError
from walkback.protocol.diagnostics.base import ReadingMaker
from walkback.protocol.diagnostics.gradient_floor import REASON as FLOOR_REASON
from walkback.protocol.diagnostics.gradient_floor import explain_case, why_small
from walkback.protocol.diagnostics.residual_growth import REASON as GROWTH_REASON
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Measurements, Reading, State, growth
from walkback.protocol.schema import Number, Record
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.verdict import is_complete, verdict_of
from walkback.protocol.wording import figure


class PartialMeasurements(Record):
    """What a record holds of one network: norms by site, as many as there are. h_0 … h_L are the L + 1 sites."""

    blocks: int = Field(ge=1)
    """L."""
    residual_norms: dict[int, Number] = Field(default_factory=dict)
    bp_grad_norms: dict[int, Number] = Field(default_factory=dict)
    """In the published convention: of a loss averaged over 128 samples."""
    cross_batch_stability: Number | None = None
    error_size: Number | None = None
    headline_acc: Number | None = None
    frozen_baseline_acc: Number | None = None

    def measurements(self) -> Measurements:
        """What is whole, for the exact judgement; figures of some sites only are kept under `extra`."""
        fields: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("cross_batch_stability", "error_size", "headline_acc", "frozen_baseline_acc")
        }
        extra: dict[str, float] = {}
        for name, letter in (("residual_norms", "h"), ("bp_grad_norms", "g")):
            known: dict[int, float] = getattr(self, name)
            if len(known) == self.blocks + 1:
                fields[name] = tuple(known[site] for site in range(self.blocks + 1))
            else:
                extra |= {f"{letter}_{site}": value for site, value in sorted(known.items())}
        if self.cross_batch_stability is not None:
            fields["stability_layer"] = self.blocks // 2
        return Measurements(**fields, extra=extra)


def partial_audit(
    known: PartialMeasurements,
    thresholds: DiagnosticThresholds | None = None,
    *,
    require_all: bool = False,
    **about: Any,
) -> DiagnosticReport:
    """Judge what is known; `about` goes to the report as it is."""
    _check_sites(known)
    limits = thresholds or DiagnosticThresholds()
    report = judge(known.measurements(), limits, **about)
    replaced = {"a": _growth_reading(known, limits), "b": _floor_reading(known, limits)}
    readings = tuple(replaced.get(r.letter) or r for r in report.readings)
    return report.model_copy(
        update={
            "readings": readings,
            "verdict": verdict_of(readings, require_all),
            "complete": is_complete(readings),
        }
    )


def _check_sites(known: PartialMeasurements) -> None:
    for name in ("residual_norms", "bp_grad_norms"):
        beyond = [site for site in getattr(known, name) if not 0 <= site <= known.blocks]
        if beyond:
            raise InputError(
                f"{name} names site {beyond[0]}, but {known.blocks} blocks have the sites 0 … {known.blocks}."
            )


def _growth_reading(known: PartialMeasurements, limits: DiagnosticThresholds) -> Reading | None:
    """(a) from some sites; None where all are known and the exact reading stands."""
    norms = sorted(known.residual_norms.items())
    if len(norms) in (0, known.blocks + 1):
        return None
    make = ReadingMaker("a", "residual growth", ">", limits.h_norm_explosion_ratio, "×")
    for site, norm in norms:
        if norm - norm != 0:
            return make.non_finite(f"h_{site} holds NaN or Inf", figure=norm, site=site)
    if len(norms) == 1:
        return make.not_measured(f"‖h_{norms[0][0]}‖ alone was recorded, and growth needs two sites.")
    means = [(growth(a, b) ** (1 / (j - i)), i, j) for (i, a), (j, b) in pairwise(norms)]
    largest, first, last = max(means)
    reading = make.judged(largest, reason=GROWTH_REASON, fired=_proven(largest, first, last), passed="", site=last)
    if reading.state is State.FIRE:
        return reading
    sentence = _undecided(known, limits.h_norm_explosion_ratio, *max(means))
    return reading.model_copy(update={"state": State.UNDECIDED, "site": None, "sentence": sentence})


def _proven(mean: float, first: int, last: int) -> str:
    if last - first == 1:
        return f"Block {last} multiplies the median ‖h‖ by {figure(mean)}: the residual stream exploded there."
    return (
        f"From site {first} to site {last} each block multiplies the median ‖h‖ by {figure(mean)} in the geometric "
        "mean, and the largest by at least that: the residual stream exploded, in which of them is not known."
    )


def _undecided(known: PartialMeasurements, threshold: float, mean: float, first: int, last: int) -> str:
    """What the bound does not prove, and what it would take for (a) to fire between the two sites."""
    bound = f"The largest growth of a block is at least {figure(mean)}, the geometric mean from site {first} to {last}"
    # A stretch of one block is exact, so what hides a firing is another one; the longest hides most.
    gaps = [(j - i, growth(known.residual_norms[i], known.residual_norms[j]), i, j) for i, j in _stretches(known)]
    blocks, ratio, i, j = max(gaps)
    if blocks == 1:
        return f"{bound}; no stretch with both ends recorded holds more, and the sites beyond were not recorded."
    others, room = blocks - 1, ratio / threshold
    each = room ** (1 / others)
    needed = (
        f"shrink the stream by {figure(1 / room)} together ({figure(1 / each)} each)"
        if room < 1
        else f"grow it by less than {figure(room)} together ({figure(each)} each)"
    )
    return (
        f"{bound}. That proves no firing, and two sites never prove a pass: (a) fires if one block of {i + 1} … {j} "
        f"multiplies the stream by more than {figure(threshold)}, for which the other {others} must {needed}."
    )


def _stretches(known: PartialMeasurements) -> list[tuple[int, int]]:
    return list(pairwise(sorted(known.residual_norms)))


def _floor_reading(known: PartialMeasurements, limits: DiagnosticThresholds) -> Reading | None:
    """(b) at the deepest site that was recorded; None where all sites were, and the exact reading stands."""
    norms = sorted(known.bp_grad_norms.items())
    if len(norms) in (0, known.blocks + 1):
        return None
    make = ReadingMaker("b", "gradient floor", "<", limits.g_norm_floor)
    site, norm = norms[-1]
    where = "the deepest site" if site == known.blocks else f"site {site}, a proxy for the deepest site {known.blocks}"
    for other, value in norms:
        if value - value != 0:
            return make.non_finite(f"g_{other} holds NaN or Inf", figure=value, site=other)
    alone = Measurements(bp_grad_norms=(norm,), error_size=known.error_size)
    case = why_small(alone, limits.g_norm_floor)
    return make.judged(
        norm,
        reason=FLOOR_REASON,
        fired=f"Read at {where}. {explain_case(case, alone)}",
        passed=f"Read at {where}: the BP gradient is above the floor there.",
        site=site,
        case=case,
    )
