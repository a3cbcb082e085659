"""One final run of a comparison, judged by every panel, with the frozen arm of the same seed for (d) and depth gain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walkback.lab.runs.baselines import joined_report
from walkback.lab.runs.functional_record import RHO, mean_over_deep_blocks
from walkback.protocol.diagnostics.depth_gain import DepthGain
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth
from walkback.protocol.json_codec import number
from walkback.protocol.judge import judge
from walkback.protocol.readings import Reading
from walkback.protocol.records import DiagnosticReport


def judged_run(result: Mapping[str, Any], frozen: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is known of a run: its score, its verdicts, and the numbers behind who learns, uses depth and is aligned.

    Args:
        result: the run's record.
        frozen: that of the frozen arm, at its own best rate and with the same seed; None where it is not there.
    """
    score = {
        "accuracy": float(result["accuracy"]),
        "loss": result.get("loss"),
        "ended": result["ended"],
        **({"perplexity": result["perplexity"]} if "perplexity" in result else {}),
    }
    if result["report"] is None:
        return score | {"unmeasured": result["unmeasured"], "verdicts": {}}
    report = report_with(result, None if frozen is None or frozen["id"] == result["id"] else frozen)
    return {
        **score,
        "unmeasured": "",
        "verdicts": {
            name: {"outcome": verdict.outcome, "words": verdict.words} for name, verdict in report.verdicts.items()
        },
        "growth": _value(report, ResidualGrowth.letter),
        "depth_gain": _value(report, DepthGain.letter),
        "depth_case": getattr(_reading(report, DepthGain.letter), "case", ""),
        "gamma": _gamma(report),
        "gamma_z": _z(report),
        "no_gamma": report.alignment.unavailable if report.alignment is not None else "",
        "rho": mean_over_deep_blocks(result, RHO),
        **_of_tokens(result),
    }


def report_with(result: Mapping[str, Any], frozen: Mapping[str, Any] | None) -> DiagnosticReport:
    """The report with the frozen arm's accuracy, and its answers to the samples that both were diagnosed on."""
    report = joined_report(result, frozen)
    if frozen is None or not isinstance(frozen.get("report"), dict):
        return report
    answered = DiagnosticReport.from_dict(frozen["report"]).measurements.headline_correct
    if answered is None or report.measurements.headline_correct is None:
        return report
    return judge(
        report.measurements.model_copy(update={"frozen_baseline_correct": answered}),
        report.thresholds,
        method_name=report.method_name,
        notes=report.notes,
        seed=report.seed,
        warnings=report.warnings,
        provenance=report.provenance,
    )


def _reading(report: DiagnosticReport, letter: str) -> Reading | None:
    return next((reading for reading in report.readings if reading.letter == letter), None)


def _value(report: DiagnosticReport, letter: str) -> float | None:
    reading = _reading(report, letter)
    return None if reading is None else reading.value


def _gamma(report: DiagnosticReport) -> float | None:
    """Γ behind h_0, where the method has a credit."""
    return None if report.alignment is None or report.alignment.unavailable else report.alignment.deep


def _z(report: DiagnosticReport) -> float | None:
    """How many standard deviations Γ lies above that of fresh feedback."""
    null = None if report.alignment is None else report.alignment.null
    return None if null is None else null.deep_z


def _of_tokens(result: Mapping[str, Any]) -> dict[str, Any]:
    """Γ by token behind h_0, as a mean over positions, and at the first and the last of them."""
    found = result.get("gamma_by_token")
    if not isinstance(found, Mapping) or found.get("unmeasured"):
        return {}
    deep = [number(value) for value in found["site_means"][1:] if value is not None]
    known = [value for value in deep if value is not None]
    return {"token_gamma": sum(known) / len(known)} if known else {}
