"""What does the penalty λ·‖f_l‖² repair, what does it cost, and what gap is left between DFA and BP?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from walkback.lab.studies.audited import Audit
from walkback.lab.studies.base import Parts, Result, Study, firing, side_by_side
from walkback.present.numbers import signed
from walkback.present.page import Grid, Heading
from walkback.protocol.diagnostics.frozen_margin import FrozenMargin
from walkback.protocol.records import DiagnosticReport

PLAIN = {"bp": "bp", "dfa": "dfa", "dfa_textbook": "dfa"}
"""The rows without the penalty, and the method that they are rows of."""


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each method and strength, and what is left of the gap at each strength."""
    rows = [_row(label, reports) for label, reports in audit.by_method().items() if _strength(label) is not None]
    means = {(row["method"], row["penalty"]): row["mean_accuracy"] for row in rows}
    strengths = sorted({row["penalty"] for row in rows})
    middle = {(len(r.bp_grad_norms) - 1) // 2 for r in audit.reports if r.bp_grad_norms}
    return {
        "rows": rows,
        "middle_site": min(middle, default=0),
        "gaps": [_gap(means, s) for s in strengths if ("bp", s) in means and ("dfa", s) in means],
    }


def _strength(label: str) -> tuple[str, float] | None:
    """(method, λ) of a row."""
    if label in PLAIN:
        return PLAIN[label], 0.0
    named = re.fullmatch(r"(\w+):penalty=([\d.e+-]+)", label)
    return (named[1], float(named[2])) if named else None


def _row(label: str, reports: Sequence[DiagnosticReport]) -> dict[str, Any]:
    named = _strength(label)
    assert named is not None
    accuracies = [r.headline_acc for r in reports if r.headline_acc is not None]
    middle = [r.bp_grad_norms[(len(r.bp_grad_norms) - 1) // 2] if r.bp_grad_norms else None for r in reports]
    return {
        "label": label,
        "method": named[0],
        "penalty": named[1],
        "seeds": [r.seed for r in reports],
        "accuracies": accuracies,
        "mean_accuracy": sum(accuracies) / len(accuracies) if accuracies else None,
        "growths": [r.max_per_block_growth for r in reports],
        "last_norms": [r.residual_norms[-1] if r.residual_norms else None for r in reports],
        "middle_gradients": middle,
        "last_gradients": [r.bp_grad_norms[-1] if r.bp_grad_norms else None for r in reports],
        "deep_alignments": [r.alignment.deep if r.alignment else None for r in reports],
        "margins_pp": [r.reading(FrozenMargin.letter).value for r in reports],
        "fired": [firing(r) for r in reports],
    }


def _gap(means: dict[tuple[str, float], float], strength: float) -> dict[str, Any]:
    """Points between BP and DFA with the same penalty, and the points that it costs BP."""
    return {
        "penalty": strength,
        "gap_pp": 100 * (means["bp", strength] - means["dfa", strength]),
        "cost_to_bp_pp": 100 * (means["bp", 0.0] - means["bp", strength]) if ("bp", 0.0) in means else None,
        "gain_to_dfa_pp": 100 * (means["dfa", strength] - means["dfa", 0.0]) if ("dfa", 0.0) in means else None,
    }


def paragraphs(result: Result) -> Parts:
    """The rows, seeds side by side, then the gaps."""
    headings = (
        "method",
        "λ",
        "accuracy",
        "growth",
        "‖h_L‖",
        f"‖g_{result['middle_site']}‖",
        "deep Γ",
        "(d) pp",
        "fired",
    )
    rows = [
        [
            row["method"],
            f"{row['penalty']:g}",
            *(side_by_side(row[name]) for name in ("accuracies", "growths", "last_norms", "middle_gradients")),
            *(side_by_side(row[name], signed) for name in ("deep_alignments", "margins_pp")),
            ", ".join(f"({fired})" if fired else "none" for fired in row["fired"]),
        ]
        for row in result["rows"]
    ]
    gaps = [
        [
            f"{gap['penalty']:g}",
            *(side_by_side([gap[name]], signed) for name in ("gap_pp", "cost_to_bp_pp", "gain_to_dfa_pp")),
        ]
        for gap in result["gaps"]
    ]
    return [
        Grid(headings, rows, "lrrrrrrrl"),
        Heading("What is left", 3),
        Grid(("λ", "BP minus DFA, pp", "cost to BP, pp", "gain to DFA, pp"), gaps, "rrrr"),
    ]


STUDY = Study(
    "penalty",
    "What does the penalty repair, and what does it cost?",
    "λ·‖f_l(h_l)‖² is added to the objective of each block. Figures of the seeds stand side by side; the gap is the "
    "mean accuracy of BP minus that of DFA, both with the same λ. DFA's credit is textbook credit, but in audits of "
    "the source's definitions.",
    answer,
    paragraphs,
    lambda audit: any(":penalty=" in label for label in audit.labels),
    "it needs rows with the penalty: walkback lab audit --preset penalty",
)
