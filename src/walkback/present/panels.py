"""The four charts over the sites: the size of the stream, of the gradient, its direction, and Γ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from walkback.present.chart import Chart, Pairs, Series, chart
from walkback.present.outline import STATE_WORDS
from walkback.present.plain import shortened
from walkback.present.site_table import padded, site_table
from walkback.protocol.records import Alignment, DiagnosticReport, Interval


@dataclass(frozen=True)
class Panel:
    """A titled chart, or why there is none."""

    title: str
    legend: str
    chart: Chart | None
    missing: str = ""


def panels(report: DiagnosticReport) -> list[Panel]:
    """One panel per quantity; a quantity that was not measured keeps its place and says so."""
    return [_norms(report), _gradients(report), _directions(report), _alignment(report)]


def _names(report: DiagnosticReport, count: int) -> list[str]:
    table = site_table(report)
    named = table.count if table else 0
    return [shortened(table.name(s), 60) if table and s < named else f"h_{s}" for s in range(count)]


def _deciding(report: DiagnosticReport, letter: str) -> frozenset[int]:
    return frozenset(r.site for r in report.readings if r.letter == letter and r.site is not None)


def _fitting(intervals: Sequence[Interval] | None, count: int) -> Sequence[Interval] | None:
    return intervals if intervals is not None and len(intervals) == count else None


def _missing(report: DiagnosticReport, letter: str) -> str:
    reading = next((r for r in report.readings if r.letter == letter), None)
    word = STATE_WORDS[reading.state].lower() if reading and reading.figure is None else "not measured"
    return f"{word} at the sites"


def _norms(report: DiagnosticReport) -> Panel:
    title, values = "‖h‖, the residual stream", report.residual_norms
    if values is None:
        return Panel(title, "", None, _missing(report, "a"))
    intervals = _fitting(report.residual_norm_intervals, len(values))
    names, deciding = _names(report, len(values)), _deciding(report, "a")
    drawn = chart(Series(values, names, "‖h‖", True, intervals, deciding=deciding))
    return Panel(title, "Median over samples, log scale. Diamond: the end of the block that grows most.", drawn)


def _gradients(report: DiagnosticReport) -> Panel:
    title, values = "‖g‖, the true gradient", report.bp_grad_norms
    if values is None:
        return Panel(title, "", None, _missing(report, "b"))
    floor = report.thresholds.g_norm_floor
    intervals = _fitting(report.bp_grad_norm_intervals, len(values))
    names, deciding = _names(report, len(values)), _deciding(report, "b")
    drawn = chart(Series(values, names, "‖g‖", True, intervals, (floor, "<"), deciding=deciding))
    return Panel(title, "Median over samples, log scale. (b) fires if the diamond lies in the hatched part.", drawn)


def _directions(report: DiagnosticReport) -> Panel:
    share = report.thresholds.drift_share_ceiling
    judged_share = share is not None
    title = "ρ, drift share" if judged_share else "(c), cosine of group-mean gradients"
    values = report.drift_shares if judged_share else report.site_stabilities
    if values is None:
        return Panel(title, "", None, _missing(report, "c"))
    ceiling = share if share is not None else report.thresholds.stability_drift_ceiling
    intervals = _fitting(report.drift_share_intervals, len(values)) if judged_share else None
    names, deciding = _names(report, len(values)), _deciding(report, "c")
    symbol = "ρ" if judged_share else "(c)"
    drawn = chart(Series(values, names, symbol, False, intervals, (ceiling, ">"), deciding=deciding))
    return Panel(title, "(c) is judged at the diamond, and fires if it lies in the hatched part.", drawn)


def _alignment(report: DiagnosticReport) -> Panel:
    title, alignment = "Γ, alignment of credit and gradient", report.alignment
    if alignment is None:
        return Panel(title, "", None, "not measured: no credit rule was given")
    if not alignment.sites:
        return Panel(title, "", None, f"N/A: {shortened(alignment.unavailable, 300) or 'no figures per site'}")
    names = _names(report, len(alignment.sites))
    band = _null_band(alignment)
    drawn = chart(Series(alignment.sites, names, "Γ", False, band=band))
    if alignment.null is None:
        return Panel(title, "There is no null to compare with.", drawn)
    return Panel(title, "Grey band: null mean ± 2 sd." if band else "The null is not finite.", drawn)


def _null_band(alignment: Alignment) -> Pairs | None:
    if alignment.null is None or alignment.sites is None:
        return None
    count = len(alignment.sites)
    means, sds = padded(alignment.null.site_means, count), padded(alignment.null.site_sds, count)
    pairs = [
        None if m is None or s is None or not math.isfinite(m + s) else (m - 2 * s, m + 2 * s)
        for m, s in zip(means, sds, strict=True)
    ]
    return pairs if any(pairs) else None
