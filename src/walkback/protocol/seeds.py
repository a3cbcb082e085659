"""Several seeds: every seed's verdict, the mean ± sd of each figure, unanimous or mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from walkback.arguments import known_arguments
from walkback.errors import UnknownName, did_you_mean
from walkback.protocol.combinable import refuse_uncombinable
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.panels import panel_on_record
from walkback.protocol.records import DiagnosticReport, Interval, Reading, State
from walkback.protocol.schema import SCHEMA_VERSION, Number, Record
from walkback.protocol.uncertainty import geometric_interval, mean_interval
from walkback.protocol.verdict import NON_FINITE, TRUSTWORTHY, kind_of
from walkback.registry import RENDERERS

ENOUGH_SEEDS = 3
"""From which a spread over seeds says anything."""
Agreement = Literal["unanimous", "mixed"]


class DiagnosticSummary(Record):
    """One diagnostic over the seeds of a method."""

    letter: str
    """The letter of the diagnostic."""
    name: str
    """Its title."""
    states: tuple[State, ...]
    """What it says of each seed."""
    agreement: Agreement
    """Whether all seeds have one state."""
    mean: Number | None = None
    """The mean of the values over seeds."""
    sd: Number | None = None
    """Their standard deviation."""
    interval: Interval | None = None
    """The interval of the mean, over seeds."""
    unit: str = ""
    """The unit of the values."""
    threshold: Number | None = None
    """Where it fires."""
    geometric: Interval | None = None
    """The interval of the geometric mean, over seeds, where values are compared as ratios and all are positive."""
    by_interval: State | None = None
    """FIRE or PASS where the whole interval of the mean (of the geometric one, where there is one) lies on one side of
    the threshold, UNDECIDED where it does not; None for fewer than three seeds."""
    case: str = ""
    """What the interval of the mean over three seeds or more shows, where the diagnostic has cases for that."""
    fragile: int = 0
    """How many seeds' readings were fragile on their own."""


class SeedSummary(Record):
    """Several seeds of one method, from `combine`. A mixed result is never averaged into a clean one.

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Examples:
        >>> import walkback
        >>> reports = [
        ...     walkback.judge(walkback.Measurements(residual_norms=[8.0, n], bp_grad_norms=[1e-3, 1e-3]), seed=seed)
        ...     for seed, n in enumerate([9.0, 9.2, 9.1])
        ... ]
        >>> summary = walkback.combine(reports)
        >>> summary.agreement, summary.diagnostic("a").by_interval.name
        ('unanimous', 'PASS')
    """

    schema_version: int = SCHEMA_VERSION
    """The version of the record's format."""
    method_name: str
    """What the reports call the method."""
    seeds: tuple[int | None, ...]
    """The seeds, in the order of the reports."""
    verdicts: tuple[str, ...]
    """The verdict on each seed."""
    agreement: Agreement
    """Whether all verdicts are of one kind."""
    verdict: str
    """The seeds' common kind of verdict; or `mixed:` and how many of each."""
    diagnostics: tuple[DiagnosticSummary, ...]
    """A summary of each diagnostic."""
    by_interval: str = ""
    """What the deciding panel comes to by the intervals of the means over three seeds or more: `fail: (a)`;
    `undecided: (d)`, also where (d) fires on a seed and was measured on too few of them for an interval;
    `incomplete: 1 of 3 seeds` where nothing fails and the panel did not decide on each; or `pass`. Empty for fewer
    seeds."""
    headline_mean: Number | None = None
    """The mean accuracy over seeds, in [0, 1]."""
    headline_sd: Number | None = None
    """Its standard deviation."""
    panel: str = ""
    """The panel that decides."""
    remarks: tuple[str, ...] = ()
    """What speaks against these being several runs."""

    def _repr_html_(self) -> str:
        return str(RENDERERS.load("notebook")(self))

    def diagnostic(self, letter: str) -> DiagnosticSummary:
        """The summary of one diagnostic.

        Args:
            letter: of the diagnostic, such as `a`.

        Returns:
            Its states, mean and interval over seeds.

        Raises:
            UnknownName: the reports have no such diagnostic.
        """
        found = {each.letter: each for each in self.diagnostics}
        if letter not in found:
            raise UnknownName(f"there is no diagnostic ({letter}) in this summary. {did_you_mean(str(letter), found)}")
        return found[letter]


@known_arguments()
def combine(reports: Sequence[DiagnosticReport]) -> SeedSummary:
    """Summarise the reports of one method over several seeds.

    Args:
        reports: one per seed, of one method, judged by the same diagnostics.

    Returns:
        Every seed's verdict, what they agree on, and the mean of each diagnostic with its interval over seeds.

    Raises:
        InputError: there are no reports, or something else than reports; they are of several methods, units or sets of
            diagnostics; or one run is there twice.

    Caveat:
        Fewer than three seeds give no interval that says anything.

    Examples:
        >>> import walkback
        >>> norms = {0: [8.0, 9.0], 1: [8.0, 9.5], 2: [8.0, 900.0]}
        >>> reports = [
        ...     walkback.judge(walkback.Measurements(residual_norms=n, bp_grad_norms=[1e-3, 1e-3]), seed=seed)
        ...     for seed, n in norms.items()
        ... ]
        >>> walkback.combine(reports).verdict
        'mixed: needs walk-back 1 of 3, trustworthy 2 of 3'
    """
    refuse_uncombinable(reports)
    decisions = [report.verdict for report in reports]
    kinds = [kind_of(words) for words in decisions]
    mean, sd = _mean_sd([r.headline_acc for r in reports])
    diagnostics = tuple(_summary(reports, r.letter) for r in reports[0].readings)
    return SeedSummary(
        method_name=reports[0].method_name,
        seeds=tuple(report.seed for report in reports),
        verdicts=tuple(decisions),
        agreement=_agreement(kinds),
        verdict=_overall(kinds),
        diagnostics=diagnostics,
        by_interval=_verdict_by_interval(reports, diagnostics),
        headline_mean=mean,
        headline_sd=sd,
        panel=reports[0].panel,
        remarks=_remarks(reports),
    )


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


def _summary(reports: Sequence[DiagnosticReport], letter: str) -> DiagnosticSummary:
    readings = [report.reading(letter) for report in reports]
    figures = [reading.value for reading in readings]
    mean, sd = _mean_sd(figures)
    known = np.array([f for f in figures if f is not None], dtype=np.float64)
    interval, diagnostic = mean_interval(known), by_letter(letter)
    several = diagnostic is not None and interval is not None and known.size >= ENOUGH_SEEDS
    threshold = next(iter(diagnostic.thresholds.values()), None) if diagnostic is not None else None
    geometric = geometric_interval(known) if threshold is not None and threshold.axis == "log" else None
    # The first seed may be one without a value, whose threshold is that of another unit.
    judged = next((r for r in readings if r.value is not None), readings[0])
    return DiagnosticSummary(
        letter=letter,
        name=readings[0].name,
        states=tuple(reading.state for reading in readings),
        agreement=_agreement([reading.state for reading in readings]),
        mean=mean,
        sd=sd,
        interval=interval,
        geometric=geometric,
        by_interval=_by_interval(judged, geometric or interval) if several else None,
        case=diagnostic.case_over_seeds(interval) if several and diagnostic and interval else "",
        unit=judged.unit,
        threshold=judged.threshold,
        fragile=sum(reading.fragile for reading in readings),
    )


def _by_interval(reading: Reading, interval: Interval | None) -> State | None:
    """On which side of the threshold an interval lies."""
    threshold = reading.threshold
    if interval is None or threshold is None or reading.comparison is None:
        return None
    beyond = [x > threshold if reading.comparison == ">" else x < threshold for x in (interval.low, interval.high)]
    return State.UNDECIDED if beyond[0] != beyond[1] else State.FIRE if beyond[0] else State.PASS


def _verdict_by_interval(reports: Sequence[DiagnosticReport], found: Sequence[DiagnosticSummary]) -> str:
    """The deciding panel's word on the means: one that fires for certain fails them, one that is unsure leaves it open.

    A seed with NaN or Inf has no mean, and fails. A decider that fires on a seed and has no interval leaves it open.
    """
    panel = panel_on_record(reports[0].panel or None)
    deciding = [d for d in found if (m := panel.member(d.letter)) is not None and m.role == "decides" and not m.joined]
    broken = [d for d in found if any(r.reading(d.letter).reason == NON_FINITE for r in reports)]
    states = {d.letter: State.FIRE if d in broken else _over_seeds(d) for d in (*deciding, *broken)}
    if len(reports) < ENOUGH_SEEDS or not any(states.values()):
        return ""
    for state, word in ((State.FIRE, "fail"), (State.UNDECIDED, "undecided")):
        letters = [panel.label(letter) for letter, each in states.items() if each is state]
        if letters:
            return f"{word}: {', '.join(letters)}"
    open_ones = sum(report.outcome == "incomplete" for report in reports)
    return f"incomplete: {open_ones} of {len(reports)} seeds" if open_ones else "pass"


def _over_seeds(found: DiagnosticSummary) -> State | None:
    """By the interval of the mean; undecided where a seed fires and too few were measured for an interval."""
    return found.by_interval or (State.UNDECIDED if State.FIRE in found.states else None)


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
