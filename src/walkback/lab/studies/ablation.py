"""Decision utility: what would each reporting policy have concluded of each method?

The policies of the published study, and what each objects to:

    S0      accuracy alone: the accuracy is not more than ABOVE_CHANCE_PP points above chance
    S1      S0, and alignment: Γ, the mean over all sites, is not above ALIGNED
    S2 … S5 S1, and one diagnostic fires: (a), (b), (d), (c)
    S_full  S1, and any of the four fires

Beyond these there is one, of the same kind as S2, for each other diagnostic that was measured and for each that decides
in another panel, and one of the kind of S_full for that panel as a whole.

A policy walks a method back where it objects on every seed; where it objects on some, the method is mixed and
counts as neither. A figure that was not recorded gives no ground to object, which is the habit that S0 and S1
stand for; a record without Γ is judged by S1 on its accuracy, and the page says so. So it does of a record that does
not say how many classes there are: nobody knows what chance is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from walkback.lab.studies.audited import Audit, chance_of, mean_alignment
from walkback.lab.studies.base import Parts, Result, Study
from walkback.present.page import Grid
from walkback.protocol.diagnostics.direction_drift import DirectionDrift
from walkback.protocol.diagnostics.frozen_margin import FrozenMargin
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.diagnostics.known import known
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth
from walkback.protocol.panels import panel_on_record
from walkback.protocol.panels.april2026 import APRIL_2026
from walkback.protocol.records import DiagnosticReport, State

ABOVE_CHANCE_PP = 5.0
ALIGNED = 0.0
MEASURED = (State.PASS, State.FIRE)


class Policy(NamedTuple):
    """What a policy looks at."""

    content: str
    letters: tuple[str, ...] = ()
    """The diagnostics that it objects by."""
    alignment: bool = True


PUBLISHED: dict[str, Policy] = {
    "S0": Policy("accuracy", alignment=False),
    "S1": Policy("accuracy, Γ"),
    "S2": Policy("S1, (a)", (ResidualGrowth.letter,)),
    "S3": Policy("S1, (b)", (GradientFloor.letter,)),
    "S4": Policy("S1, (d)", (FrozenMargin.letter,)),
    "S5": Policy("S1, (c)", (DirectionDrift.letter,)),
    "S_full": Policy("S1, (a)–(d)", tuple(member.letter for member in APRIL_2026.members)),
}
"""Those of the published study, which are of the panel of April 2026."""


def policies_for(reports: Sequence[DiagnosticReport]) -> dict[str, Policy]:
    """The published policies; then one for each other panel that decides, and for each other diagnostic measured."""
    found = dict(PUBLISHED)
    for panel in map(panel_on_record, dict.fromkeys(report.panel for report in reports)):
        if panel.name != APRIL_2026.name:
            deciding = [member.letter for member in panel.members if member.role == "decides"]
            found |= {_one(panel.label(letter)): _with(panel.label(letter), letter) for letter in deciding}
            found[panel.name] = _with(panel.name, *deciding)
    covered = {letter for policy in found.values() for letter in policy.letters}
    others = [one.letter for one in known().values() if one.thresholds and one.letter not in covered]
    measured = {r.letter for report in reports for r in report.readings if r.state in MEASURED}
    return found | {_one(f"({letter})"): _with(f"({letter})", letter) for letter in others if letter in measured}


def _one(label: str) -> str:
    return f"S1 + {label}"


def _with(label: str, *letters: str) -> Policy:
    return Policy(f"S1, {label}", letters)


def objects(policy: Policy, report: DiagnosticReport) -> bool:
    """Whether the policy walks this network back."""
    accuracy, chance, gamma = report.headline_acc, chance_of(report), _gamma(report)
    # Written so that NaN is an objection.
    compared = accuracy is not None and chance is not None
    at_chance = compared and not 100 * ((accuracy or 0.0) - (chance or 0.0)) > ABOVE_CHANCE_PP
    misaligned = policy.alignment and gamma is not None and not gamma > ALIGNED
    return at_chance or misaligned or any(r.state is State.FIRE for r in report.readings if r.letter in policy.letters)


def _gamma(report: DiagnosticReport) -> float | None:
    return mean_alignment(report.alignment.sites) if report.alignment else None


def answer(audit: Audit) -> dict[str, Any]:
    """Per method how many seeds each policy walks back, and per policy which methods."""
    policies = policies_for(audit.reports)
    methods = [_method(label, reports, policies) for label, reports in audit.by_method().items()]
    letters = sorted({letter for policy in policies.values() for letter in policy.letters})
    unknown = sum(chance_of(report) is None for report in audit.reports)
    return {
        "above_chance_pp": ABOVE_CHANCE_PP,
        "aligned_above": ALIGNED,
        "chance": audit.chance,
        **({"without_classes": unknown} if unknown else {}),
        "without_alignment": sum(_gamma(report) is None for report in audit.reports),
        "unmeasured": {letter: _without(audit.reports, letter) for letter in letters},
        "methods": methods,
        "policies": {name: _counted(name, policy, methods) for name, policy in policies.items()},
    }


def _without(reports: Sequence[DiagnosticReport], letter: str) -> int:
    """How many networks a diagnostic was not measured on."""
    return sum(not any(r.letter == letter and r.state in MEASURED for r in report.readings) for report in reports)


def _method(label: str, reports: Sequence[DiagnosticReport], policies: Mapping[str, Policy]) -> dict[str, Any]:
    counts = {name: sum(objects(policy, report) for report in reports) for name, policy in policies.items()}
    return {"label": label, "seeds": len(reports), "walked_back": counts}


def _counted(name: str, policy: Policy, methods: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counts = {method["label"]: (method["walked_back"][name], method["seeds"]) for method in methods}
    return {
        **({} if name in PUBLISHED else {"content": policy.content}),
        "walked_back": [label for label, (some, seeds) in counts.items() if some == seeds],
        "mixed": [label for label, (some, seeds) in counts.items() if 0 < some < seeds],
        "of": len(methods),
    }


def paragraphs(result: Result) -> Parts:
    """Methods by policies, and how many methods each policy walks back."""
    policies = result["policies"]
    rows = [[m["label"], *(_cell(m["walked_back"][name], m["seeds"]) for name in policies)] for m in result["methods"]]
    totals = ["walked back", *(f"{len(c['walked_back'])} of {c['of']}" for c in policies.values())]
    headings = ["method", *(_heading(name, counted) for name, counted in policies.items())]
    parts: list[str | Grid] = [Grid(headings, [*rows, totals], "l" * len(headings))]
    if result.get("without_classes"):
        parts.append(
            f"{result['without_classes']} of the networks have no recorded number of classes: what chance is there is "
            "not known, and no policy objects to their accuracy."
        )
    if result["without_alignment"]:
        parts.append(f"{result['without_alignment']} of the networks have no recorded Γ; S1 judges their accuracy.")
    missing = [f"({letter}) on {count}" for letter, count in result["unmeasured"].items() if count]
    if missing:
        parts.append(f"Not measured, and so no ground to object: {', '.join(missing)} of the networks.")
    return parts


def _heading(name: str, counted: Result) -> str:
    return f"{name}: {PUBLISHED[name].content}" if name in PUBLISHED else f"{name}: {counted['content']}"


def _cell(some: int, seeds: int) -> str:
    if some == 0:
        return "accepted"
    return "walked back" if some == seeds else f"mixed, {some} of {seeds}"


STUDY = Study(
    "ablation",
    "What would each reporting policy have concluded?",
    "A reporting policy is what a reader looks at before they believe a result. The study behind the protocol names "
    f"seven of them, S0 to S_full. S0 looks at the accuracy alone, and objects where it is not more than "
    f"{ABOVE_CHANCE_PP:g} points above chance. S1 also looks at Γ, the cosine of credit and gradient (mean over all "
    f"sites), and objects where it is not above {ALIGNED:g}. S2 to S5 add one diagnostic each, S_full all four. A "
    "method is walked back where a policy objects on every seed.",
    answer,
    paragraphs,
)
