"""How much do the verdicts hang on the thresholds?

Every threshold that a diagnostic declares is swept over the values that it declares. The split into healthy and
degenerate networks is by the verdict of the record itself: it passes, or fails for whatever reason.
The healthy extreme is the figure of a healthy network nearest to firing, the degenerate extreme that of a degenerate
network nearest to passing; where the second is not beyond the first, the two overlap and there is no gap. Beside
them stand the same extremes among the networks that pass and that fire this diagnostic, and the range of thresholds
that leaves every verdict what it is: between the largest figure of a network that passes and the smallest of one that
fails by this diagnostic alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from walkback.lab.studies import drift
from walkback.lab.studies.audited import Audit
from walkback.lab.studies.base import Parts, Result, Study, number
from walkback.lab.studies.moved import Judged
from walkback.present.numbers import round_number, written
from walkback.present.page import Grid
from walkback.protocol.diagnostics.declare import Threshold
from walkback.protocol.diagnostics.frozen_margin import FrozenMargin
from walkback.protocol.diagnostics.known import known
from walkback.protocol.drift_share import SMALL_SHARE
from walkback.protocol.judge import judge
from walkback.protocol.panels import panel_on_record
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.verdict import NON_FINITE


class Sweep(NamedTuple):
    """A threshold, and whose it is."""

    key: str
    letter: str
    field: str
    threshold: Threshold
    first: bool
    """Whether it is the one that its diagnostic is judged by where nothing else is given."""

    @property
    def judged(self) -> bool:
        """Whether anything is judged by it unless it is given."""
        return self.threshold.default is not None

    @property
    def ratio(self) -> bool:
        """Whether the gap is a ratio or, on a scale with a zero of its own, a difference."""
        return self.threshold.axis == "log"


def sweeps() -> Iterator[Sweep]:
    """Every declared threshold that has values to try, in the order of the registry.

    The first of a diagnostic goes by its letter; another by its name too, without the last word, which says the side:
    `drift_share_ceiling` of (c) is `c by drift share`.
    """
    for one in known().values():
        for place, (name, threshold) in enumerate(one.thresholds.items()):
            if threshold.tried:
                by = name.rpartition("_")[0].replace("_", " ") or name
                yield Sweep(f"{one.letter} by {by}" if place else one.letter, one.letter, name, threshold, place == 0)


def _asked_of(judged: Sequence[DiagnosticReport]) -> list[Sweep]:
    """The sweeps of what was measured; those of the panel that decides stand there whether or not it was."""
    panels = [panel_on_record(name) for name in {report.panel for report in judged}]
    measured = {r.letter for report in judged for r in report.readings if r.state in (State.PASS, State.FIRE)}
    members = {member.letter for panel in panels for member in panel.members}
    listed = {reading.letter for report in judged for reading in report.readings}
    return [sweep for sweep in sweeps() if sweep.letter in measured | (members & listed)]


NEAR_PP = 1.0
"""How far (d)'s threshold is moved to see how many of its readings turn over."""


def answer(audit: Audit) -> dict[str, Any]:
    """The diagnostics, their sweeps, the fragility of (d), and the firings of (c)."""
    limits = DiagnosticThresholds()
    judged = [_judged(report, limits) for report in audit.reports]
    asked = _asked_of(judged)
    networks = [Judged.of(report, limits) for report in judged]
    return {
        "networks": len(judged),
        "healthy": sum(report.outcome == "pass" for report in judged),
        "diagnostics": {s.key: _diagnostic(s, judged, limits) for s in asked if s.first and s.judged},
        "sweeps": {sweep.key: [_point(sweep, value, networks) for value in sweep.threshold.tried] for sweep in asked},
        "margins": _margins(judged),
        "drift": drift.firings(tuple(judged)),
    }


def _judged(report: DiagnosticReport, limits: DiagnosticThresholds) -> DiagnosticReport:
    """The report under other thresholds, by its own panel."""
    measured, panel = report.measurements, report.panel or None
    return judge(measured, limits, panel=panel, method_name=report.method_name, seed=report.seed)


def _diagnostic(sweep: Sweep, judged: Sequence[DiagnosticReport], limits: DiagnosticThresholds) -> dict[str, Any]:
    readings = [report.reading(sweep.letter) for report in judged]
    finite = [(report, r) for report, r in zip(judged, readings, strict=True) if _finite(r)]
    up = sweep.threshold.fires == ">"
    fires = [r for _, r in finite if r.state is State.FIRE]
    passes = [r for _, r in finite if r.state is State.PASS]
    return {
        "threshold": getattr(limits, sweep.field),
        "fires_when": "above" if up else "below",
        "ratio": sweep.ratio,
        "measured": len(finite),
        "non_finite": sum(r.reason == NON_FINITE for r in readings),
        "fired": sum(r.state is State.FIRE for r in readings),
        "fragile": sum(r.fragile for r in readings),
        "by_verdict": _extremes(
            [r for report, r in finite if report.outcome == "pass"],
            [r for report, r in finite if report.outcome == "fail"],
            up,
            sweep.ratio,
        ),
        "by_reading": _extremes(passes, fires, up, sweep.ratio),
        "same_verdicts": _same_verdicts(finite, sweep.letter, up),
    }


def _finite(reading: Reading) -> bool:
    known = reading.value is not None and math.isfinite(reading.value) and reading.reason != NON_FINITE
    return known and reading.state in (State.PASS, State.FIRE)


def _extremes(healthy: Iterable[Reading], degenerate: Iterable[Reading], up: bool, ratio: bool) -> dict[str, Any]:
    """The figure of each side nearest to the other, and the gap between them."""
    good, bad = _nearest(healthy, largest=up), _nearest(degenerate, largest=not up)
    result: dict[str, Any] = {"healthy": good, "degenerate": bad, "separate": False, "gap": None}
    if good is None or bad is None:
        return result
    low, high = (good, bad) if up else (bad, good)
    gap = (high / low if low > 0 else None) if ratio else high - low
    return result | {"separate": low < high, "gap": gap}


def _nearest(readings: Iterable[Reading], largest: bool) -> float | None:
    figures = [r.value for r in readings if r.value is not None]
    return (max(figures) if largest else min(figures)) if figures else None


def _same_verdicts(finite: Sequence[tuple[DiagnosticReport, Reading]], letter: str, up: bool) -> dict[str, Any]:
    """The thresholds between which no verdict changes its kind; None where that side is open."""
    decided = [(report, r) for report, r in finite if _decides(report, letter)]
    passing = [r for report, r in decided if report.outcome == "pass"]
    alone = [r for report, r in decided if report.outcome == "fail" and report.decided_by == (letter,)]
    inner, outer = _nearest(passing, largest=up), _nearest(alone, largest=not up)
    low, high = (inner, outer) if up else (outer, inner)
    return {"low": low, "high": high, "held_by": len(alone)}


def _decides(report: DiagnosticReport, letter: str) -> bool:
    """Whether a diagnostic has a say in the verdict."""
    member = panel_on_record(report.panel).member(letter)
    return member is not None and member.role == "decides"


def _point(sweep: Sweep, value: float, networks: Sequence[Judged]) -> dict[str, Any]:
    """What one threshold would have given."""
    limits = DiagnosticThresholds(**{sweep.field: value})
    swept = [network.under(limits, sweep.letter) for network in networks]
    return {
        "threshold": value,
        "fired": sum(moved.fired for moved in swept),
        "walked_back": sum(moved.outcome == "fail" for moved in swept),
        "changed": sum(new.outcome != old.outcome for new, old in zip(swept, networks, strict=True)),
    }


def _margins(judged: Sequence[DiagnosticReport]) -> dict[str, Any]:
    """(d) on every network that has it, and how many readings turn over near the threshold."""
    threshold = DiagnosticThresholds().frozen_acc_margin_pp
    found = [(report, report.reading(FrozenMargin.letter)) for report in judged]
    readings = [(report, reading) for report, reading in found if _finite(reading)]
    near = [r for _, r in readings if r.value is not None and abs(r.value - threshold) < NEAR_PP]
    return {
        "threshold_pp": threshold,
        "near_pp": NEAR_PP,
        "turn_over_near": len(near),
        "of": len(readings),
        "networks": [
            {
                "label": report.method_name,
                "seed": report.seed,
                "margin_pp": r.value,
                "low": r.interval.low if r.interval else None,
                "high": r.interval.high if r.interval else None,
                "state": r.state.value,
                "fragile": r.fragile,
            }
            for report, r in readings
        ],
    }


def paragraphs(result: Result) -> Parts:
    """The extremes and ranges, (d)'s margins, and the firings of (c)."""
    headings = (
        "",
        "threshold",
        "fires",
        "healthy",
        "degenerate",
        "gap",
        "passes",
        "fires at",
        "same verdicts",
        "fragile",
    )
    rows = [_row(key, d) for key, d in result["diagnostics"].items()]
    split = f"{result['healthy']} of {result['networks']} networks are healthy by the record's own verdict."
    parts: list[str | Grid] = [Grid(headings, rows, "lrrrrrrrrr"), split]
    margins = result["margins"]
    if margins["of"]:
        turned = f"{margins['turn_over_near']} of {margins['of']} readings of (d)"
        moved = f"{turned} lie within {margins['near_pp']:g} pp of the threshold of {margins['threshold_pp']:g} pp."
        parts += [moved, Grid(("method", "seed", "margin pp", "interval", "(d)"), _margin_rows(margins), "lrrrl")]
    if result["drift"]:
        parts += [_drift_sentence(result["drift"]), drift.table(result["drift"])]
    return parts


def _row(key: str, d: Result) -> list[str]:
    by_verdict, own, same = d["by_verdict"], d["by_reading"], d["same_verdicts"]
    ends = [written(number(by_verdict[side])) for side in ("healthy", "degenerate")]
    low, high = number(same["low"]), number(same["high"])
    span = f"{written(low) if low is not None else 'any'} to {written(high) if high is not None else 'any'}"
    own_ends = [written(number(own[side])) for side in ("healthy", "degenerate")]
    fired = f"{d['fired']} of {d['measured'] + d['non_finite']}"
    return [f"({key})", round_number(d["threshold"]), fired, *ends, _gap(d), *own_ends, span, str(d["fragile"])]


def _gap(d: Result) -> str:
    """The gap by verdict, with the digits that the published record gives."""
    gap = number(d["by_verdict"]["gap"])
    if gap is None or not d["by_verdict"]["separate"]:
        return "–" if gap is None else "overlap"
    if not d["ratio"]:
        return written(gap)
    return f"{gap:,.2f}×" if gap < 1000 else f"{gap:,.0f}×"


def _margin_rows(margins: Result) -> list[list[str]]:
    return [
        [
            n["label"],
            str(n["seed"]),
            f"{number(n['margin_pp']):+.2f}",
            "–" if n["low"] is None else f"{number(n['low']):+.2f} to {number(n['high']):+.2f}",
            n["state"] + (", fragile" if n["fragile"] else ""),
        ]
        for n in margins["networks"]
    ]


def _drift_sentence(firings: Sequence[Result]) -> str:
    real = sum(row["because_of"] == drift.DRIFT for row in firings)
    return (
        f"(c) fires on {len(firings)} networks: on {real} with a drift share of {SMALL_SHARE:g} or more, on "
        f"{len(firings) - real} because averaging over 128 samples carries a smaller one over the ceiling."
    )


STUDY = Study(
    "sensitivity",
    "How much do the verdicts hang on the thresholds?",
    "Would other thresholds have given other verdicts? A network is healthy here if the verdict on record is a pass, "
    "and degenerate if not. The columns “healthy” and “degenerate” have two values of the diagnostic: that of the "
    "healthy network which comes nearest to firing, and that of the degenerate one which comes nearest to passing. "
    "“gap” is how far these two are apart; where they overlap, no threshold tells the two groups apart. “passes” and "
    "“fires at” have the two values for this diagnostic alone: of the network that passes it most narrowly, and of the "
    "one that fires most narrowly. “same verdicts” is the range in which the threshold could have been set without "
    "changing the verdict of any network. “fragile” counts the networks whose interval holds the threshold. Every "
    "sweep is in the JSON.",
    answer,
    paragraphs,
)
