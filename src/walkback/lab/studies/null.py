"""Is Γ more than chance? Alignment under the trained feedback, under fresh draws, and in the first epochs."""

from __future__ import annotations

from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun, mean_alignment
from walkback.lab.studies.base import Parts, Result, Study, shown
from walkback.present.numbers import signed
from walkback.present.page import Grid, Heading
from walkback.protocol.records import Alignment

SHOWN_EPOCHS = 5


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each run whose alignment has a null."""
    return {"first_epochs": SHOWN_EPOCHS, "runs": [_run(run, found) for run, found in _with_null(audit)]}


def _with_null(audit: Audit) -> list[tuple[TracedRun, Alignment]]:
    found = [(run, audit.report_of(run).alignment) for run in audit.traces]
    return [(run, alignment) for run, alignment in found if alignment and alignment.null and alignment.sites]


def _run(run: TracedRun, alignment: Alignment) -> dict[str, Any]:
    null = alignment.null
    assert null is not None
    early = [record.deep_alignment for record in run.records[: SHOWN_EPOCHS + 1]]
    return {
        "label": run.label,
        "seed": run.seed,
        "id": run.run_id,
        "sites": alignment.sites,
        "mean": mean_alignment(alignment.sites),
        "deep": alignment.deep,
        "null": null.to_dict(),
        "orders": alignment.orders,
        "sign_flips": bool(alignment.orders) and min(alignment.orders.values()) < 0 < max(alignment.orders.values()),
        "early_deep": early,
    }


def paragraphs(result: Result) -> Parts:
    """Γ against its null; then the orders of aggregation and the first epochs."""
    against = ("method", "seed", "Γ per site", "deep Γ", "fresh draws", "z")
    rows = [
        [
            run["label"],
            str(run["seed"]),
            " ".join(map(signed, run["sites"])),
            shown(run["deep"], signed),
            f"{shown(run['null']['deep_mean'], signed)} ± {shown(run['null']['deep_sd'], signed).lstrip('+')}",
            shown(run["null"]["deep_z"], signed),
        ]
        for run in result["runs"]
    ]
    course = [
        [
            run["label"],
            str(run["seed"]),
            *(shown(end, signed) for end in _ends(run["orders"])),
            "flips" if run["sign_flips"] else "keeps",
            " ".join(shown(value, signed) for value in run["early_deep"]),
        ]
        for run in result["runs"]
    ]
    columns = ("method", "seed", "lowest order", "highest order", "sign", "deep Γ at epochs 0, 1, …")
    return [
        Grid(against, rows, "lrrrrr"),
        Heading("Orders of aggregation, and the first epochs", 3),
        Grid(columns, course, "lrrrlr"),
    ]


def _ends(orders: Result) -> tuple[float | None, float | None]:
    return (min(orders.values()), max(orders.values())) if orders else (None, None)


STUDY = Study(
    "null",
    "Is Γ more than chance?",
    "Γ under the feedback that the network was trained with, against the same cosine under fresh draws of it: a "
    "network adapts to its own feedback and to no other. Deep Γ is the mean over sites 1 … L, since site 0 alone can "
    "carry the average. Valid orders of aggregation (mean or median, over samples or "
    "sites, with site 0 or without) are set beside each other.",
    answer,
    paragraphs,
    lambda audit: bool(audit.rows) and any(r.alignment and r.alignment.null for r in audit.reports),
    "it needs runs of a method with feedback that can be drawn again: walkback lab audit --preset penalty",
)
