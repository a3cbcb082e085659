"""Measurements → readings → verdict → report. No torch: arrays measured anywhere can be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from walkback.addresses import allow
from walkback.arguments import known_arguments
from walkback.errors import InputError
from walkback.protocol.diagnostics.known import known
from walkback.protocol.diagnostics.of_others import read_by
from walkback.protocol.finite import firing_on_non_finite
from walkback.protocol.panels import DECIDING, Panel
from walkback.protocol.panels.base import MISSING
from walkback.protocol.records import (
    Alignment,
    DiagnosticReport,
    Measurements,
    PanelVerdict,
    Reading,
    ReferenceCheck,
    State,
)
from walkback.protocol.schema import shortened
from walkback.protocol.thresholds import RELIABLE_FIDELITY, DiagnosticThresholds, checked_thresholds, published
from walkback.protocol.wording import written
from walkback.protocol.words import PUBLISHED_PANEL
from walkback.registry import PANELS


def read(measured: Measurements, thresholds: DiagnosticThresholds | None = None) -> tuple[Reading, ...]:
    """The reading of every known diagnostic, in the order of the registry; NaN or Inf in any field fires."""
    limits = (thresholds or published()).model_extra
    return firing_on_non_finite(measured, [read_by(one, limits, measured) for one in known().values()])


def listed(readings: Iterable[Reading], panel: Panel) -> tuple[Reading, ...]:
    """The readings that a report has: of the panel's members, and of those that ask to be listed."""
    others = {one.letter: one for one in known().values() if panel.member(one.letter) is None}
    return tuple(r for r in readings if r.letter not in others or others[r.letter].is_listed(r))


def read_for(panel: Panel, measured: Measurements, thresholds: DiagnosticThresholds) -> tuple[Reading, ...]:
    """The readings that a panel judges by: under its own thresholds where it has some."""
    return read(measured, thresholds.with_fixed(panel.fixed) if panel.fixed else thresholds)


def verdicts_on(
    measured: Measurements, deciding: str, read_under: Callable[[Panel], tuple[Reading, ...]], require_all: bool = False
) -> dict[str, PanelVerdict]:
    """The verdict of every panel that has something to say, and of those that reports always have."""
    panels: dict[str, Panel] = dict(PANELS.loaded()) | {deciding: PANELS.load(deciding)}
    readings = {name: read_under(panel) for name, panel in panels.items()}
    always = {deciding, PUBLISHED_PANEL}
    return {
        name: panel.verdict(readings[name], require_all, measured)
        for name, panel in panels.items()
        if name in always or panel.speaks(readings[name])
    }


def _of_measurements(name: str) -> str:
    """Where a number that is given by its name belongs."""
    return f"It takes walkback.Measurements({name}=…)." if name in Measurements.model_fields else ""


@known_arguments(_of_measurements)
def judge(
    measured: Measurements,
    thresholds: DiagnosticThresholds | None = None,
    *,
    panel: str | None = None,
    method_name: str = "",
    notes: str = "",
    seed: int | None = None,
    require_all: bool = False,
    warnings: Sequence[str] = (),
    provenance: dict[str, str] | None = None,
) -> DiagnosticReport:
    """Judge measurements from any source and explain the verdict. No model and no torch are needed.

    Args:
        measured: the numbers. What is None in it was not measured.
        thresholds: where each diagnostic fires; the published values where not given.
        panel: which panel decides: `april2026` where none is named, `june2026`, `calibrated`, or one that was added.
        method_name: what the report calls the method.
        notes: free text for the report.
        seed: the seed of the run.
        require_all: True makes the verdict `incomplete` where a diagnostic of the panel was not measured. By default
            such a gap is named beside the verdict, unless the panel requires the diagnostic.
        warnings: what a reader must know beside the verdict, as sentences.
        provenance: versions, device and precision behind the numbers, by name.

    Returns:
        The report: the measurements with their readings and verdicts.

    Raises:
        UnknownName: there is no such panel.
        InputError: the object behind `panel` cannot be used, or `measured` or `thresholds` is of another kind.
        PitfallError: under `walkback.strict()`, NaN met a threshold.

    Examples:
        >>> import walkback
        >>> measured = walkback.Measurements(residual_norms=[8.0, 900.0], bp_grad_norms=[1e-3, 1e-3])
        >>> report = walkback.judge(measured, method_name="DFA")
        >>> report.outcome, report.decided_by
        ('fail', ('a',))
    """
    allow(panel)
    limits, deciding = checked_thresholds(thresholds) or published(), panel or DECIDING
    if not isinstance(measured, Measurements):
        raise InputError(_no_measurements(measured))
    readings = read(measured, limits)
    fields: dict[str, Any] = {name: getattr(measured, name) for name in Measurements.model_fields}
    fields["alignment"] = _marked(measured.alignment, measured, readings)
    return DiagnosticReport(
        **fields,
        method_name=method_name,
        notes=notes,
        seed=seed,
        thresholds=limits,
        **judged_by(deciding, measured, limits, require_all, readings),
        warnings=_with(warnings, overridden(PANELS.load(deciding), limits)),
        provenance=provenance or {},
    )


def _no_measurements(given: Any) -> str:
    made = "walkback.Measurements(**your_dict)" if isinstance(given, dict) else "walkback.Measurements(…)"
    return f"judge was given {shortened(given)}, a {type(given).__name__}; expected {made}."


def under(report: DiagnosticReport, panel: str, require_all: bool = False) -> DiagnosticReport:
    """The same measurements, judged again, with another panel deciding."""
    said = {overridden(one, report.thresholds) for _, one in PANELS.loaded()}
    kept = [words for words in report.warnings if words not in said]
    warnings = _with(kept, overridden(PANELS.load(panel), report.thresholds))
    judged = judged_by(panel, report.measurements, report.thresholds, require_all)
    return report.model_copy(update={**judged, "warnings": warnings})


def overridden(panel: Panel, thresholds: DiagnosticThresholds) -> str:
    """That thresholds which a user set are not judged by, for the panel has its own; empty where none are."""
    usual, given = published().model_extra or {}, thresholds.model_extra or {}
    apart = {
        name: fixed for name, fixed in panel.fixed.items() if given.get(name) not in (usual.get(name), fixed)
    }  # fmt: skip
    if not apart:
        return ""
    each = "; ".join(f"{name} = {written(fixed)}, not {written(given[name])}" for name, fixed in apart.items())
    return (
        f"The panel {panel.name} judges by its own thresholds, whatever thresholds= sets: {each}. What is known of its "
        "error rates was counted with these. Name another panel= to judge by yours."
    )


def _with(warnings: Sequence[str], remark: str) -> tuple[str, ...]:
    """Warnings with one more, which a record that is judged again has already."""
    return (*warnings, remark) if remark and remark not in warnings else tuple(warnings)


def judged_by(
    deciding: str,
    measured: Measurements,
    thresholds: DiagnosticThresholds,
    require_all: bool = False,
    readings: tuple[Reading, ...] | None = None,
) -> dict[str, Any]:
    """The fields of a report that follow from its measurements; `readings` under these thresholds, if known."""
    panel: Panel = PANELS.load(deciding)
    # Read once for all panels that share the thresholds: studies judge every epoch of every run.
    common = read(measured, thresholds) if readings is None else readings

    def read_under(panel: Panel) -> tuple[Reading, ...]:
        return read_for(panel, measured, thresholds) if panel.fixed else common

    verdicts = verdicts_on(measured, deciding, read_under, require_all)
    shown = listed(read_under(panel), panel)
    members = [reading for reading in shown if panel.member(reading.letter) is not None]
    return {
        "readings": shown,
        "verdict": verdicts[deciding].words,
        "panel": deciding,
        "verdicts": verdicts,
        "complete": all(reading.state not in MISSING for reading in members),
    }


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
            f"(fidelity {written(min(measured.reference_fidelity), 4)})"
        )
    else:
        trust = f"the reference itself is unreliable (fidelity {written(min(measured.reference_fidelity))})"
    return [f"(b) fired, {floor.reason}: a Γ from code that clamps norms would be wrong here; {trust}."]
