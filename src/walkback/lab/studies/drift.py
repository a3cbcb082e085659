"""The firings of (c) beside the drift share: which are drift, and which are the size of the batch.

With ρ the drift share, the cosine of two means of n samples is near c(n) = nρ / (nρ + 1 − ρ). A record that has
(c) alone implies a ρ by the same formula. A firing counts as drift where ρ is SMALL_SHARE or more; below that,
what carries (c) over its ceiling is the averaging over the batch.
"""

from __future__ import annotations

from typing import Any

from walkback.lab.studies.base import Result, number
from walkback.present.numbers import written
from walkback.present.page import Grid
from walkback.protocol.diagnostics.direction_drift import DirectionDrift
from walkback.protocol.drift_share import SMALL_SHARE, implied_share, stability_at
from walkback.protocol.records import DiagnosticReport, State

SIZES = (32, 128, 512)
DRIFT, BATCH = "drift", "batch size"


def firings(reports: tuple[DiagnosticReport, ...]) -> list[dict[str, Any]]:
    """Every report on which (c) fires on a finite figure, with ρ, c(n) and what it is."""
    fired = [r for r in reports if r.reading(DirectionDrift.letter).state is State.FIRE]
    return [_firing(report) for report in fired if report.cross_batch_stability is not None]


def _firing(report: DiagnosticReport) -> dict[str, Any]:
    stability, site = report.cross_batch_stability, report.stability_layer
    assert stability is not None
    measured = report.drift_shares is not None and site is not None
    share = report.drift_shares[site] if report.drift_shares and site is not None else implied_share(stability)
    return {
        "label": report.method_name,
        "seed": report.seed,
        "stability": stability,
        "drift_share": share,
        "share_from": "measured" if measured else "implied by (c)",
        "stability_at": {str(size): stability_at(share, size) for size in SIZES},
        "because_of": DRIFT if share >= SMALL_SHARE else BATCH,
    }


def table(rows: list[Result]) -> Grid:
    """The firings as a table."""
    headings = ["method", "seed", "(c)", "ρ", "ρ is", *(f"c({size})" for size in SIZES), "because of"]
    return Grid(headings, [_cells(row) for row in rows], "lrrrlrrrl")


def _cells(row: Result) -> list[str]:
    at = [written(number(row["stability_at"][str(size)])) for size in SIZES]
    figures = [written(number(row[name])) for name in ("stability", "drift_share")]
    return [row["label"], str(row["seed"]), *figures, row["share_from"], *at, row["because_of"]]
