"""Several seeds: every seed's verdict, the mean ± sd of each figure, unanimous or mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from walkback.errors import InputError
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.records import DiagnosticReport, Interval, Reading, State
from walkback.protocol.schema import SCHEMA_VERSION, Number, Record, shortened
from walkback.protocol.uncertainty import geometric_interval, mean_interval
from walkback.protocol.verdict import TRUSTWORTHY, kind_of
from walkback.registry import RENDERERS

ENOUGH_SEEDS = 3
"""From which a spread over seeds says anything."""
Agreement = Literal["unanimous", "mixed"]


class DiagnosticSummary(Record):
    """One diagnostic over the seeds."""

    letter: str
    name: str
    states: tuple[State, ...]
    agreement: Agreement
    mean: Number | None = None
    sd: Number | None = None
    interval: Interval | None = None
    """Of the mean, over seeds."""
    unit: str = ""
    threshold: Number | None = None
    geometric: Interval | None = None
    """Of the geometric mean, over seeds, where figures are compared as ratios and all are positive."""
    by_interval: State | None = None
    """FIRE or PASS where the whole interval of the mean (of the geometric one, where there is one) lies on one side of
    the threshold, UNDECIDED where it does not; None for fewer than three seeds."""
    case: str = ""
    """What the interval of the mean over three seeds or more shows, where the diagnostic has cases for that."""
    fragile: int = 0
    """How many seeds' readings were fragile on their own."""


class SeedSummary(Record):
    """Several seeds of one method. A mixed result is never averaged into a clean one."""

    schema_version: int = SCHEMA_VERSION
    method_name: str
    seeds: tuple[int | None, ...]
    verdicts: tuple[str, ...]
    agreement: Agreement
    verdict: str
    """The seeds' common kind of verdict, or `mixed: ` and how many of each."""
    diagnostics: tuple[DiagnosticSummary, ...]
    headline_mean: Number | None = None
    headline_sd: Number | None = None
    panel: str = ""
    """The panel that decides."""
    remarks: tuple[str, ...] = ()
    """What speaks against these being several runs."""

    def _repr_html_(self) -> str:
        return str(RENDERERS.load("notebook")(self))

    def diagnostic(self, letter: str) -> DiagnosticSummary:
        """One diagnostic's summary, by its letter."""
        return next(d for d in self.diagnostics if d.letter == letter)


def combine(reports: Sequence[DiagnosticReport]) -> SeedSummary:
    """Summarise reports of one method over several seeds; one run counts once, and is refused twice."""
    if not reports:
        raise InputError("combine got no reports; expected one per seed.")
    names = {report.method_name for report in reports}
    if len(names) > 1:
        raise InputError(
            f"combine got reports of several methods ({', '.join(map(shortened, sorted(names)))}); combine each by "
            "itself."
        )
    if len({tuple(r.letter for r in report.readings) for report in reports}) > 1:
        raise InputError("combine got reports with different diagnostics; judge them all with one walkback first.")
    _check_units(reports)
    _refuse_twice(reports)
    decisions = [report.decision.words if report.decision is not None else report.verdict for report in reports]
    kinds = [kind_of(words) for words in decisions]
    mean, sd = _mean_sd([r.headline_acc for r in reports])
    return SeedSummary(
        method_name=reports[0].method_name,
        seeds=tuple(report.seed for report in reports),
        verdicts=tuple(decisions),
        agreement=_agreement(kinds),
        verdict=_overall(kinds),
        diagnostics=tuple(_summary(reports, r.letter) for r in reports[0].readings),
        headline_mean=mean,
        headline_sd=sd,
        panel=reports[0].panel,
        remarks=_remarks(reports),
    )


def _refuse_twice(reports: Sequence[DiagnosticReport]) -> None:
    """Copies of one run have no spread, and would agree with each other on anything."""
    seeds = [report.seed for report in reports if report.seed is not None]
    again = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if again is not None:
        raise InputError(
            f"combine got seed {again} {seeds.count(again)} times; expected one report per seed. Give each run once, "
            "and runs of other settings by themselves."
        )
    unnamed = [report.measurements.to_dict() for report in reports if report.seed is None]
    if any(one in unnamed[:number] for number, one in enumerate(unnamed)):
        raise InputError("combine got the same report several times; expected one per seed. Give each run once.")


def _remarks(reports: Sequence[DiagnosticReport]) -> tuple[str, ...]:
    """Seeds whose measurements are the same to the last digit: the seed did nothing, or a run was copied."""
    groups: dict[str, list[int | None]] = {}
    for report in reports:
        groups.setdefault(report.measurements.model_dump_json(), []).append(report.seed)
    return tuple(
        f"seeds {', '.join(map(str, seeds))} have the same measurements to the last digit: the seed did nothing, or "
        "one run was given several times."
        for seeds in groups.values()
        if len(seeds) > 1
    )


def _check_units(reports: Sequence[DiagnosticReport]) -> None:
    """(d) has the unit of its score: percentage points of some seeds and perplexities of others have no mean."""
    for letter in (reading.letter for reading in reports[0].readings):
        readings = [report.reading(letter) for report in reports]
        units = list(dict.fromkeys(r.unit for r in readings if r.value is not None))
        if len(units) > 1:
            raise InputError(f"combine got ({letter}) in several units ({', '.join(units)}); give all seeds one.")


def _summary(reports: Sequence[DiagnosticReport], letter: str) -> DiagnosticSummary:
    readings = [report.reading(letter) for report in reports]
    figures = [reading.value for reading in readings]
    mean, sd = _mean_sd(figures)
    known = np.array([f for f in figures if f is not None], dtype=np.float64)
    interval, diagnostic = mean_interval(known), by_letter(letter)
    several = diagnostic is not None and interval is not None and known.size >= ENOUGH_SEEDS
    threshold = next(iter(diagnostic.thresholds.values()), None) if diagnostic is not None else None
    geometric = geometric_interval(known) if threshold is not None and threshold.axis == "log" else None
    return DiagnosticSummary(
        letter=letter,
        name=readings[0].name,
        states=tuple(reading.state for reading in readings),
        agreement=_agreement([reading.state for reading in readings]),
        mean=mean,
        sd=sd,
        interval=interval,
        geometric=geometric,
        by_interval=_by_interval(readings[0], geometric or interval) if several else None,
        case=diagnostic.case_over_seeds(interval) if several and diagnostic and interval else "",
        unit=next((r.unit for r in readings if r.value is not None), readings[0].unit),
        threshold=readings[0].threshold,
        fragile=sum(reading.fragile for reading in readings),
    )


def _by_interval(reading: Reading, interval: Interval | None) -> State | None:
    """On which side of the threshold an interval lies."""
    threshold = reading.threshold
    if interval is None or threshold is None or reading.comparison is None:
        return None
    beyond = [x > threshold if reading.comparison == ">" else x < threshold for x in (interval.low, interval.high)]
    return State.UNDECIDED if beyond[0] != beyond[1] else State.FIRE if beyond[0] else State.PASS


def _agreement(states: Sequence[object]) -> Agreement:
    return "unanimous" if len(set(states)) == 1 else "mixed"


def _overall(kinds: Sequence[str]) -> str:
    if len(set(kinds)) == 1:
        return kinds[0]
    counted = sorted({kind: kinds.count(kind) for kind in kinds}.items(), key=lambda item: item[0] == TRUSTWORTHY)
    return "mixed: " + ", ".join(f"{kind} {count} of {len(kinds)}" for kind, count in counted)


def _mean_sd(figures: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = np.array([f for f in figures if f is not None], dtype=np.float64)
    if known.size == 0:
        return None, None
    with np.errstate(invalid="ignore"):
        return float(known.mean()), float(known.std(ddof=1)) if known.size > 1 else None
