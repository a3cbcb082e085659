"""What deciders ask of reports, and how they word what they found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from walkback.lab.evidence.results import NotOnRecordError
from walkback.present.numbers import written
from walkback.protocol.panels.april2026 import APRIL_2026
from walkback.protocol.records import DiagnosticReport, State

PUBLISHED = tuple(member.letter for member in APRIL_2026.members)
"""The diagnostics that the claims speak of."""
RECORD, LONG = "resmlp_d256", "resmlp_d256_100ep"
PUBLISHED_METHODS = ("bp", "dfa", "state_bridge", "credit_bridge", "ep")
FAILING = ("dfa", "state_bridge", "credit_bridge")
PRESET = "walkback lab audit --preset resmlp_d256"
LARGE_BATCH = 1024
"""Over which the loss of the published temporal record was averaged, about: its untrained ‖g‖ is 9.8e-4, not 8e-3."""


def state_of(report: DiagnosticReport, letter: str) -> State:
    """What a diagnostic says; one that was not measured is not on record."""
    state = report.reading(letter).state
    if state is State.NOT_MEASURED:
        raise NotOnRecordError(f"({letter}) of {report.method_name}, seed {report.seed}, was not measured")
    return state


def fires(report: DiagnosticReport, letter: str) -> bool:
    """Whether a diagnostic fires. One whose interval is too wide to say neither fires nor passes."""
    return state_of(report, letter) is State.FIRE


def passes(report: DiagnosticReport, letters: Iterable[str]) -> bool:
    """Whether every one of these diagnostics passes."""
    return {state_of(report, letter) for letter in letters} == {State.PASS}


def all_fire(report: DiagnosticReport, letters: Iterable[str]) -> bool:
    """Whether every one of these diagnostics fires."""
    return all(fires(report, letter) for letter in letters)


def first_epoch(run: Mapping[str, Any], key: str) -> int | None:
    """When a diagnostic first fires in a trace, or that it never does, which takes every epoch to say."""
    first: int | None = run["first"][key]
    if first is None and run["measured"][key] < run["epochs"]:
        raise NotOnRecordError(
            f"({key}) of {run['label']}, seed {run['seed']}, was measured at {run['measured'][key]} of "
            f"{run['epochs']} epochs"
        )
    return first


def known(value: float | None, what: str, report: DiagnosticReport) -> float:
    """A figure that a claim rests on; where it was not measured, the claim was not run."""
    if value is None or math.isnan(value):
        raise NotOnRecordError(f"{what} of {report.method_name}, seed {report.seed}, was not measured")
    return value


def last(figures: Sequence[float] | None) -> float | None:
    """The figure at the deepest site."""
    return figures[-1] if figures else None


def accuracy(report: DiagnosticReport) -> float:
    """The headline accuracy."""
    return known(report.headline_acc, "the accuracy", report)


def deep_cosine(report: DiagnosticReport) -> float:
    """Γ over the sites behind the first."""
    return known(report.alignment.deep if report.alignment else None, "the deep cosine", report)


def mean(values: Iterable[float]) -> float:
    """The mean; NaN of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else float("nan")


def span(values: Iterable[float | None]) -> str:
    """`0.297 to 0.311`, or the one figure where they are the same."""
    found = [value for value in values if value is not None]
    if not found:
        return "–"
    low, high = written(min(found)), written(max(found))
    return low if low == high else f"{low} to {high}"


def count(agree: Sequence[bool], what: str) -> str:
    """`2 of 3 seeds`."""
    return f"{sum(agree)} of {len(agree)} {what}"


def norm_words(reports: Sequence[DiagnosticReport]) -> str:
    """`‖h_L‖ 4e+08 to 7e+08, ‖g_L‖ 2e-09 to 4e-09`."""
    norms, gradients = ([last(getattr(r, name)) for r in reports] for name in ("residual_norms", "bp_grad_norms"))
    return f"‖h_L‖ {span(norms)}, ‖g_L‖ {span(gradients)}"


def fired_letters(reports: Iterable[DiagnosticReport]) -> str:
    """Which diagnostics fire on how many of the reports: `(a) 3, (b) 3, (d) 2`."""
    found = list(reports)
    counts = {letter: sum(report.reading(letter).state is State.FIRE for report in found) for letter in PUBLISHED}
    return ", ".join(f"({letter}) {number}" for letter, number in counts.items() if number) or "none"
