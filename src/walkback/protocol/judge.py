"""Measurements → readings → verdict → report. No torch: arrays measured anywhere can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walkback.protocol.finite import firing_on_non_finite
from walkback.protocol.records import Alignment, DiagnosticReport, Measurements, Reading, ReferenceCheck, State
from walkback.protocol.thresholds import RELIABLE_FIDELITY, DiagnosticThresholds
from walkback.protocol.verdict import is_complete, verdict_of
from walkback.protocol.wording import figure
from walkback.registry import DIAGNOSTICS


def read(measured: Measurements, thresholds: DiagnosticThresholds | None = None) -> tuple[Reading, ...]:
    """Every diagnostic's reading, in the order of the registry; NaN or Inf in any field fires."""
    limits = thresholds or DiagnosticThresholds()
    readings = [DIAGNOSTICS.load(name).from_thresholds(limits).judge(measured) for name in DIAGNOSTICS]
    return firing_on_non_finite(measured, readings)


def judge(
    measured: Measurements,
    thresholds: DiagnosticThresholds | None = None,
    *,
    method_name: str = "",
    notes: str = "",
    seed: int | None = None,
    require_all: bool = False,
    warnings: Sequence[str] = (),
    provenance: dict[str, str] | None = None,
) -> DiagnosticReport:
    """Judge measurements from any source and explain the verdict.

    A missing diagnostic leaves the verdict as it is; with `require_all` it makes it `incomplete: …`.
    """
    limits = thresholds or DiagnosticThresholds()
    readings = read(measured, limits)
    fields: dict[str, Any] = {name: getattr(measured, name) for name in Measurements.model_fields}
    fields["alignment"] = _marked(measured.alignment, measured, readings)
    return DiagnosticReport(
        **fields,
        method_name=method_name,
        notes=notes,
        seed=seed,
        thresholds=limits,
        readings=readings,
        verdict=verdict_of(readings, require_all),
        complete=is_complete(readings),
        warnings=tuple(warnings),
        provenance=provenance or {},
    )


def _marked(alignment: Alignment | None, measured: Measurements, readings: Sequence[Reading]) -> Alignment | None:
    """Γ with the caveats that an unchecked reference and a fired gradient floor put on it."""
    if alignment is None or alignment.sites is None:
        return alignment
    marks = [*_unchecked(measured.reference_check), *_at_floor(measured, readings)]
    return alignment.model_copy(update={"mark": " ".join(marks)}) if marks else alignment


def _unchecked(check: ReferenceCheck | None) -> list[str]:
    if check is None or check.passed:
        return []
    return [f"unchecked: whether this is the cosine with the true gradient is not known. {check.reason}"]


def _at_floor(measured: Measurements, readings: Sequence[Reading]) -> list[str]:
    floor = next((r for r in readings if r.letter == "b"), None)
    if floor is None or floor.state is not State.FIRE:
        return []
    if measured.reference_fidelity is None:
        trust = "the reference fidelity was not measured, so whether this Γ is right is not known"
    elif all(fidelity >= RELIABLE_FIDELITY for fidelity in measured.reference_fidelity):
        trust = (
            "this Γ does not clamp, and the reference it uses is sound "
            f"(fidelity {figure(min(measured.reference_fidelity), 4)})"
        )
    else:
        trust = f"the reference itself is unreliable (fidelity {figure(min(measured.reference_fidelity))})"
    return [f"(b) fired, {floor.reason}: a Γ from code that clamps norms would be wrong here; {trust}."]
