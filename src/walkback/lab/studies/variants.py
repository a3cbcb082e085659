"""Which choice makes a method behave as it does? One setting at a time changed, a short run each.

The published record names some methods without defining them, and some claims do not reproduce: this is where other
readings and possible causes are tried.
"""

from __future__ import annotations

import re
from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun
from walkback.lab.studies.base import Parts, Result, Study, fired_words, firing, shown, unmeasured
from walkback.lab.studies.temporal import fired_at
from walkback.present.numbers import percent, signed
from walkback.present.page import Grid
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth

SHOWN = (ResidualGrowth.letter, GradientFloor.letter)
CHANGED = re.compile(r"(\w+):(?!penalty=)(\w+=.+)")
"""A method with something changed, such as `dfa:expansion=4`; the penalty has a study of its own."""


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each run; a method as it is comes before its variants."""
    return {"runs": [_run(audit, run) for run in audit.traces]}


def _run(audit: Audit, run: TracedRun) -> dict[str, Any]:
    report, epochs = audit.report_of(run), fired_at(run)
    named = CHANGED.fullmatch(run.label)
    return {
        "label": run.label,
        "method": named[1] if named else run.label,
        "changed": named[2] if named else "",
        "seed": run.seed,
        "epochs": run.epochs,
        "id": run.run_id,
        "accuracy": report.headline_acc,
        "growth": report.max_per_block_growth,
        "last_norm": report.residual_norms[-1] if report.residual_norms else None,
        "last_gradient": report.bp_grad_norms[-1] if report.bp_grad_norms else None,
        "sites": report.alignment.sites if report.alignment else None,
        "deep": report.alignment.deep if report.alignment else None,
        "fired": firing(report),
        "unmeasured": unmeasured(report),
        "first": {letter: epochs[letter][0] if epochs[letter] else None for letter in SHOWN},
    }


def paragraphs(result: Result) -> Parts:
    """One row for each run."""
    headings = ("method", "changed", "seed", "epochs", "accuracy", "growth", "‖h_L‖", "‖g_L‖", "Γ per site", "deep Γ")
    rows = [
        [
            run["method"],
            run["changed"] or "nothing",
            str(run["seed"]),
            str(run["epochs"]),
            percent(run["accuracy"]),
            *(shown(run[name]) for name in ("growth", "last_norm", "last_gradient")),
            " ".join(map(signed, run["sites"])) if run["sites"] else "–",
            shown(run["deep"], signed),
            fired_words(run["fired"], run["unmeasured"]),
            *("never" if run["first"][letter] is None else str(run["first"][letter]) for letter in SHOWN),
        ]
        for run in result["runs"]
    ]
    return [Grid((*headings, "fired at the end", *(f"({letter}) first" for letter in SHOWN)), rows, "llrrrrrrrrlrr")]


STUDY = Study(
    "variants",
    "Which choice makes a method behave as it does?",
    "One setting at a time is changed, in one short run each; the rest is as in the audit. Of the bridges and of EP "
    "the published record gives names and results only, so which reading of them behaves as published is a question "
    "in itself; of DFA, settings that might explain why a claim does not reproduce.",
    answer,
    paragraphs,
    lambda audit: bool(audit.rows) and any(CHANGED.fullmatch(label) for label in audit.labels),
    "it needs rows with a setting changed: walkback lab audit --preset bridge_variants",
)
