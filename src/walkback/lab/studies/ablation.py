"""Decision utility: what would each reporting policy have concluded of each method?

The policies, and what each objects to:

    S0      accuracy alone: the accuracy is not more than ABOVE_CHANCE_PP points above chance
    S1      S0, and alignment: Γ, the mean over all sites, is not above ALIGNED
    S2 … S5 S1, and one diagnostic fires: (a), (b), (d), (c)
    S_full  S1, and any of the four fires

A policy walks a method back where it objects on every seed; where it objects on some, the method is mixed and
counts as neither. A figure that was not recorded gives no ground to object, which is the habit that S0 and S1
stand for; a record without Γ is judged by S1 on its accuracy, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walkback.lab.studies.audited import Audit, mean_alignment
from walkback.lab.studies.base import Parts, Result, Study
from walkback.present.page import Grid
from walkback.protocol.records import DiagnosticReport, State

ABOVE_CHANCE_PP = 5.0
ALIGNED = 0.0
POLICIES: dict[str, tuple[str, ...]] = {
    "S0": (), "S1": (), "S2": ("a",), "S3": ("b",), "S4": ("d",), "S5": ("c",), "S_full": ("a", "b", "c", "d"),
}  # fmt: skip
CONTENT = {
    "S0": "accuracy", "S1": "accuracy, Γ", "S2": "S1, (a)", "S3": "S1, (b)", "S4": "S1, (d)", "S5": "S1, (c)",
    "S_full": "S1, (a)–(d)",
}  # fmt: skip


def objects(policy: str, report: DiagnosticReport, chance: float) -> bool:
    """Whether the policy walks this network back."""
    accuracy, gamma = report.headline_acc, _gamma(report)
    # Written so that NaN is an objection.
    at_chance = accuracy is not None and not 100 * (accuracy - chance) > ABOVE_CHANCE_PP
    misaligned = policy != "S0" and gamma is not None and not gamma > ALIGNED
    letters = POLICIES[policy]
    return at_chance or misaligned or any(r.state is State.FIRE for r in report.readings if r.letter in letters)


def _gamma(report: DiagnosticReport) -> float | None:
    return mean_alignment(report.alignment.sites) if report.alignment else None


def answer(audit: Audit) -> dict[str, Any]:
    """Per method how many seeds each policy walks back, and per policy which methods."""
    methods = [_method(label, reports, audit.chance) for label, reports in audit.by_method().items()]
    return {
        "above_chance_pp": ABOVE_CHANCE_PP,
        "aligned_above": ALIGNED,
        "chance": audit.chance,
        "without_alignment": sum(_gamma(report) is None for report in audit.reports),
        "unmeasured": {letter: _without(audit.reports, letter) for letter in "abcd"},
        "methods": methods,
        "policies": {policy: _counted(policy, methods) for policy in POLICIES},
    }


def _without(reports: Sequence[DiagnosticReport], letter: str) -> int:
    """How many networks a diagnostic was not measured on."""
    return sum(report.reading(letter).state not in (State.PASS, State.FIRE) for report in reports)


def _method(label: str, reports: Sequence[DiagnosticReport], chance: float) -> dict[str, Any]:
    counts = {policy: sum(objects(policy, report, chance) for report in reports) for policy in POLICIES}
    return {"label": label, "seeds": len(reports), "walked_back": counts}


def _counted(policy: str, methods: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counts = {method["label"]: (method["walked_back"][policy], method["seeds"]) for method in methods}
    return {
        "walked_back": [label for label, (some, seeds) in counts.items() if some == seeds],
        "mixed": [label for label, (some, seeds) in counts.items() if 0 < some < seeds],
        "of": len(methods),
    }


def draw(result: Result) -> Parts:
    """Methods by policies, and how many methods each policy walks back."""
    rows = [[m["label"], *(_cell(m["walked_back"][p], m["seeds"]) for p in POLICIES)] for m in result["methods"]]
    totals = ["walked back", *(f"{len(c['walked_back'])} of {c['of']}" for c in result["policies"].values())]
    headings = ["method", *(f"{policy}: {CONTENT[policy]}" for policy in POLICIES)]
    parts: list[str | Grid] = [Grid(headings, [*rows, totals], "l" * len(headings))]
    if result["without_alignment"]:
        parts.append(f"{result['without_alignment']} of the networks have no recorded Γ; S1 judges their accuracy.")
    missing = [f"({letter}) on {count}" for letter, count in result["unmeasured"].items() if count]
    if missing:
        parts.append(f"Not measured, and so no ground to object: {', '.join(missing)} of the networks.")
    return parts


def _cell(some: int, seeds: int) -> str:
    if some == 0:
        return "accepted"
    return "walked back" if some == seeds else f"mixed, {some} of {seeds}"


STUDY = Study(
    "ablation",
    "What would each reporting policy have concluded?",
    f"S0 objects to an accuracy that is not more than {ABOVE_CHANCE_PP:g} points above chance, S1 also to a Γ (mean "
    f"over all sites) that is not above {ALIGNED:g}; S2 to S5 add one diagnostic each, S_full all four. A method is "
    "walked back where a policy objects on every seed.",
    answer,
    draw,
)
