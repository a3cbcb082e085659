"""The charts over the sites: one for each diagnostic that measures something at every site, and one for Γ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walkback.present.chart import Chart, Pairs, Series, chart
from walkback.present.in_panel import in_its_words, limits
from walkback.present.outline import STATE_WORDS
from walkback.present.places import unnamed
from walkback.present.plain import shortened
from walkback.present.site_table import padded, site_table
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Comparison, Quantity
from walkback.protocol.diagnostics.known import known
from walkback.protocol.records import Alignment, DiagnosticReport, Interval


@dataclass(frozen=True)
class Panel:
    """A titled chart, or why there is none."""

    title: str
    legend: str
    chart: Chart | None
    missing: str = ""


def panels(report: DiagnosticReport) -> list[Panel]:
    """One panel per diagnostic; what was not measured keeps its place and says so. Γ comes last."""
    shown = {reading.letter for reading in report.readings}
    # A report that was never judged has no readings, and may have figures; Γ has a panel of its own.
    asked = [
        one
        for one in known().values()
        if one.listed != "never" and (one.letter in shown or (not shown and one.listed == "always"))
    ]
    made = (_diagnostic(report, one) for one in asked)
    return [*(panel for panel in made if panel is not None), _alignment(report)]


def _names(report: DiagnosticReport, count: int) -> list[str]:
    table = site_table(report)
    named = table.count if table else 0
    return [shortened(table.name(s), 60) if table and s < named else unnamed(s) for s in range(count)]


def _deciding(report: DiagnosticReport, letter: str) -> frozenset[int]:
    return frozenset(r.site for r in report.readings if r.letter == letter and r.site is not None)


def _fitting(intervals: Sequence[Interval] | None, count: int) -> Sequence[Interval] | None:
    return intervals if intervals is not None and len(intervals) == count else None


def _missing(report: DiagnosticReport, letter: str) -> str:
    reading = next((r for r in report.readings if r.letter == letter), None)
    word = STATE_WORDS[reading.state].lower() if reading and reading.value is None else "not measured"
    return f"{word} at the sites"


def _diagnostic(report: DiagnosticReport, one: type[Diagnostic]) -> Panel | None:
    """What a diagnostic is judged by at every site; None where it measures nothing there."""
    quantity, level = _charted(one, limits(report))
    if quantity is None:
        return None
    title = ", ".join(filter(None, (quantity.headed, quantity.caption)))
    values = report.value_of(quantity.name)
    if values is None:
        return Panel(title, "", None, _missing(report, one.letter))
    intervals = _fitting(report.value_of(quantity.interval) if quantity.interval else None, len(values))
    deciding = _deciding(report, one.letter)
    log = quantity.axis == "log"
    drawn = chart(
        Series(
            values,
            _names(report, len(values)),
            quantity.headed,
            log,
            intervals,
            level,
            deciding=deciding,
            least_span=quantity.least_span,
        )
    )
    return Panel(title, in_its_words(report, quantity.legend or _legend(one, level, deciding)), drawn)


def _charted(
    one: type[Diagnostic], limits: Mapping[str, float | None]
) -> tuple[Quantity | None, tuple[float, Comparison] | None]:
    """The quantity that is compared with the threshold, and the threshold; else the first that sites have."""
    sites = {q.name: q for q in one.quantities if q.per_site and q.kind != "broken"}
    for name, limit in one.judged_by(limits).items():
        if one.compared_with(name) in sites:
            return sites[one.compared_with(name)], (limit, one.thresholds[name].fires)
    return next(iter(sites.values()), None), None


def _legend(one: type[Diagnostic], level: tuple[float, Comparison] | None, deciding: frozenset[int]) -> str:
    if level is None or not deciding:
        return f"Diamond: the site that ({one.letter}) is read at." if deciding else ""
    return f"({one.letter}) fires if the diamond lies in the hatched part."


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
