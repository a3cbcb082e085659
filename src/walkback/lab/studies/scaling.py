"""Do the readings change with depth, or with width? Rows of one method side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from walkback.lab.studies.audited import Audit
from walkback.lab.studies.base import Parts, Result, Study, fired_words, firing, shown, side_by_side, unmeasured
from walkback.present.numbers import signed
from walkback.present.page import Grid
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth
from walkback.protocol.records import DiagnosticReport, State

COMPARED = (ResidualGrowth.letter, GradientFloor.letter)
PATTERNS = {"depth": r"(\w+) depth (\d+)", "width": r"(\w+) d(\d+)"}


def answer(audit: Audit, by: str) -> dict[str, Any]:
    """One entry for each method and size, and whether (a) and (b) read the same at every size."""
    epochs = {run.label: run.epochs for run in audit.traces}
    sized = {label: reports for label, reports in audit.by_method().items() if size_of(label, by)}
    rows = [_row(label, reports, by) | {"epochs": epochs.get(label)} for label, reports in sized.items()]
    return {"by": by, "rows": rows, "same": _same(sized, by)}


def size_of(label: str, by: str) -> tuple[str, int] | None:
    """The method and the size that a label names: `dfa depth 4`; None where it names none."""
    named = re.fullmatch(PATTERNS[by], label)
    return (named[1], int(named[2])) if named else None


def _row(label: str, reports: Sequence[DiagnosticReport], by: str) -> dict[str, Any]:
    named = size_of(label, by)
    assert named is not None
    return {
        "label": label,
        "method": named[0],
        "size": named[1],
        "seeds": [r.seed for r in reports],
        "accuracies": [r.headline_acc for r in reports],
        "growths": [r.max_per_block_growth for r in reports],
        "last_gradients": [r.bp_grad_norms[-1] if r.bp_grad_norms else None for r in reports],
        "deep_alignments": [r.alignment.deep if r.alignment else None for r in reports],
        "fired": [firing(r) for r in reports],
        "unmeasured": [unmeasured(r) for r in reports],
    }


def _same(sized: Mapping[str, Sequence[DiagnosticReport]], by: str) -> dict[str, bool]:
    """Per method, whether (a) and (b) were measured on all its seeds and read the same at every size."""
    read: dict[str, set[Any]] = {}
    gaps: set[str] = set()
    for label, reports in sized.items():
        method, _ = size_of(label, by) or ("", 0)
        states = [[report.reading(letter).state for letter in COMPARED] for report in reports]
        fired = [tuple(state is State.FIRE for state in each) for each in states]
        read.setdefault(method, set()).add(tuple(zip((r.seed for r in reports), fired, strict=True)))
        gaps |= {method} if any(State.NOT_MEASURED in each for each in states) else set()
    return {method: len(readings) == 1 and method not in gaps for method, readings in read.items()}


def paragraphs(result: Result) -> Parts:
    """One row for each method and size, seeds side by side."""
    headings = ("method", result["by"], "epochs", "accuracy", "growth", "‖g_L‖", "deep Γ", "fired")
    rows = [
        [
            row["method"],
            str(row["size"]),
            shown(row["epochs"], "{:.0f}".format),
            *(side_by_side(row[name]) for name in ("accuracies", "growths", "last_gradients")),
            side_by_side(row["deep_alignments"], signed),
            "; ".join(map(fired_words, row["fired"], row["unmeasured"])),
        ]
        for row in sorted(result["rows"], key=lambda row: (row["method"], row["size"]))
    ]
    same = [method for method, yes in result["same"].items() if yes]
    other = [method for method, yes in result["same"].items() if not yes]
    words = f"(a) and (b) read the same at every {result['by']}: {', '.join(same) or 'no method'}; "
    return [Grid(headings, rows, "lrrrrrrl"), f"{words}not: {', '.join(other) or 'none'}."]


def _study(by: str, title: str, question: str) -> Study:
    return Study(
        by,
        title,
        question,
        partial(answer, by=by),
        paragraphs,
        lambda audit: any(size_of(label, by) for label in audit.labels),
        f"it needs rows of several {by}s: walkback lab audit --preset {by}",
    )


DEPTH = _study(
    "depth",
    "FA against DFA, with depth",
    "Feedback alignment sends the error back layer by layer, direct feedback alignment to every site at once; both at "
    "2, 4 and 8 blocks. Figures of the seeds stand side by side.",
)
WIDTH = _study(
    "width",
    "Do the readings change with width?",
    "The same methods at two widths, trained alike. Figures of the seeds stand side by side.",
)
