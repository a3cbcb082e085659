"""How much of the verdict is left when a log kept only ‖h_0‖, ‖h_L‖, one gradient norm and the accuracies?

Every run of an audit is judged again from those alone, and set beside its full readings.
"""

from __future__ import annotations

from typing import Any

from walkback.lab.studies.audited import Audit
from walkback.lab.studies.base import Parts, Result, Study, shown
from walkback.present.page import Grid
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth
from walkback.protocol.panels.april2026 import APRIL_2026
from walkback.protocol.records import DiagnosticReport, State
from walkback.watch.partial import PartialMeasurements, partial_audit

PUBLISHED = tuple(member.letter for member in APRIL_2026.members)
GROWTH, FLOOR = ResidualGrowth.letter, GradientFloor.letter


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each report that has both ends of the stream."""
    runs = [_run(report) for report in audit.reports if report.residual_norms and len(report.residual_norms) > 2]
    return {"runs": runs, "counts": _counts(runs)}


def kept(report: DiagnosticReport) -> PartialMeasurements:
    """What a log of two stream norms, the middle gradient norm and two accuracies would have kept."""
    assert report.residual_norms is not None
    last = len(report.residual_norms) - 1
    gradients = report.bp_grad_norms
    return PartialMeasurements(
        blocks=last,
        residual_norms={0: report.residual_norms[0], last: report.residual_norms[last]},
        bp_grad_norms={} if gradients is None else {last // 2: gradients[last // 2]},
        error_size=report.error_size,
        headline_acc=report.headline_acc,
        frozen_baseline_acc=report.frozen_baseline_acc,
    )


def _run(report: DiagnosticReport) -> dict[str, Any]:
    known = kept(report)
    judged = partial_audit(known)
    first, last = (known.residual_norms[site] for site in (0, known.blocks))
    return {
        "label": report.method_name,
        "seed": report.seed,
        "geometric_mean": (last / first) ** (1 / known.blocks) if first else None,
        "largest_growth": report.max_per_block_growth,
        "proxy_site": known.blocks // 2,
        "proxy_gradient": known.bp_grad_norms.get(known.blocks // 2),
        "readings": _readings(judged, report),
        "sentence": judged.reading(ResidualGrowth.letter).sentence,
        "verdict": judged.verdict,
        "full_verdict": report.verdict,
    }


def _readings(judged: DiagnosticReport, report: DiagnosticReport) -> dict[str, list[str]]:
    """From the log and in full, of the published diagnostics and of others that were measured."""
    full = {reading.letter: reading.state for reading in report.readings}
    return {
        r.letter: [r.state.value, full[r.letter].value]
        for r in judged.readings
        if r.letter in full and (r.letter in PUBLISHED or full[r.letter] in (State.PASS, State.FIRE))
    }


def _counts(runs: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How often each full reading became which partial one, by letter: `FIRE → UNDECIDED`."""
    counts: dict[str, dict[str, int]] = {}
    for run in runs:
        for letter, (partly, whole) in run["readings"].items():
            key = f"{whole} → {partly}"
            counts.setdefault(letter, {}).setdefault(key, 0)
            counts[letter][key] += 1
    return counts


def paragraphs(result: Result) -> Parts:
    """One row for each run, then what became of the readings."""
    others = [letter for letter in PUBLISHED if letter not in (GROWTH, FLOOR)]
    sizes = ("geometric mean", "largest growth", f"({GROWTH})", "proxy ‖g‖", f"({FLOOR})")
    headings = ("method", "seed", *sizes, *(f"({letter})" for letter in others))
    rows = [
        [
            run["label"],
            str(run["seed"]),
            shown(run["geometric_mean"]),
            shown(run["largest_growth"]),
            run["readings"][GROWTH][0],
            f"g_{run['proxy_site']}: {shown(run['proxy_gradient'])}",
            *(run["readings"][letter][0] for letter in (FLOOR, *others)),
        ]
        for run in result["runs"]
    ]
    became = [[f"({letter})", key, str(n)] for letter, keys in result["counts"].items() for key, n in keys.items()]
    note = (
        "The geometric mean over the blocks is a lower bound of the largest growth: above 50 it proves that (a) fires; "
        "below, nothing is proven either way, since one block may grow what others shrink."
    )
    return [Grid(headings, rows, "lrrrlrlll"), note, Grid(("", "full reading → from the log", "runs"), became, "llr")]


STUDY = Study(
    "partial",
    "What can be said from a log that kept little?",
    "Every network of the audit, judged from ‖h_0‖, ‖h_L‖, the gradient norm at the middle site as a proxy for the "
    "deepest, and the accuracies; (c) was not kept.",
    answer,
    paragraphs,
    lambda audit: any(r.residual_norms and len(r.residual_norms) > 2 for r in audit.reports),
    "it needs reports with the size of the stream.",
)
