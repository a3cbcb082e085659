"""A report in about ten lines: the outcome, why, how sure, what to do next, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.present import in_panel, in_short, numbers, outline
from walkback.present.evidence import beside_verdict, panel_rates
from walkback.present.numbers import count, reading_value
from walkback.present.places import in_block_names, place, table_name
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened
from walkback.present.score_words import accuracy_words, baseline_words, score_words
from walkback.protocol.carrying import in_sentences
from walkback.protocol.diagnostics.declare import CHECK_INPUTS, FIND_THE_FIRST
from walkback.protocol.diagnostics.known import by_letter, owners
from walkback.protocol.finite import NON_FINITE_SOURCE
from walkback.protocol.panels.base import MISSING
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.words import NON_FINITE

_MOST = 4
"""Lines of one kind; what is beyond them stands in the full report."""
_MOST_BLOCKS = 4

Row = tuple[str, str]

MORE = "report.to_text(), or --full on the command line; docs/glossary.md has the words"


def brief(report: DiagnosticReport) -> list[Row]:
    """Labelled lines, below the verdict; a label stands beside its first line alone."""
    return [("" if number else label, line) for label, lines in sections(report) for number, line in enumerate(lines)]


def sections(report: DiagnosticReport) -> list[tuple[str, list[str]]]:
    """What is said under each label: `("why", ["the signal grows out of bounds: (a) 6050× at blocks.0, …"])`."""
    said = {
        "why": _why(report),
        "not known": _unknown(report),
        "how sure": _how_sure(report),
        "warning": _some(outline.warnings(report)),
        "next": _next(report),
        **{about: [words] for about, words in beside_verdict(report)},
        "alignment": _alignment(report),
        "score": _scores(report),
        "measured": _measured(report),
        "notes": [shortened(report.notes, NOTE_LENGTH)] if report.notes else [],
        "more": [MORE],
    }
    return [(label, lines) for label, lines in said.items() if lines]


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST
    return lines if more <= 0 else [*lines[:_MOST], f"… and {more} more in the full report"]


def _why(report: DiagnosticReport) -> list[str]:
    """What decided: everything that fired, in plain words; else everything that passed, in one line."""
    decide, inform = in_panel.fired(report), in_panel.fired_beside(report)
    if decide:
        return _some([fired_words(report, reading) for reading in (*decide, *inform)])
    passed = [f"{in_panel.named(report, r)} {reading_value(r)}" for r in report.readings if r.state is State.PASS]
    nothing = "nothing that decides fires" if inform else "nothing fires"
    said = [f"{nothing}: {', '.join(passed)}"] if passed else []
    return said + [f"beside the verdict: {fired_words(report, reading)}" for reading in inform]


def fired_words(report: DiagnosticReport, reading: Reading) -> str:
    """What a firing means, with its value, its place and the rule."""
    at = f" at {place(report, reading.site)}" if reading.site is not None else ""
    role = "" if in_panel.decides(report, reading) else f", {in_panel.role(report, reading.letter)}"
    value = f"{in_panel.named(report, reading)} {reading_value(reading)}{at}{_share(report, reading)}"
    return f"{in_short.meaning(report, reading)}: {value} ({outline.fires_when(reading)}{role})"


def _share(report: DiagnosticReport, reading: Reading) -> str:
    """ρ beside (c), which says little without it."""
    name, site = "drift_shares", reading.site
    told = reading.letter == owners()[name] and reading.comparison is not None and reading.name != "drift share"
    if not told or site is None or report.drift_shares is None:
        return ""
    return f", drift share ρ {numbers.written(report.drift_shares[site])}"


def _unknown(report: DiagnosticReport) -> list[str]:
    gaps = [in_panel.named(report, r) for r in report.readings if r.state in MISSING]
    return [", ".join(gaps)] if gaps else []


def _how_sure(report: DiagnosticReport) -> list[str]:
    """Whether the intervals clear the thresholds; of one network they say nothing of other seeds."""
    judged = [r for r in report.readings if r.state in (State.FIRE, State.PASS) and r.interval is not None]
    clear = [in_panel.label(report, r.letter) for r in judged if not r.fragile]
    parts = [f"{', '.join(clear)}: the 95 % interval does not cross the threshold."] if clear else []
    for r in judged:
        if r.fragile and r.threshold is not None and (bounds := numbers.interval_bounds(r)) is not None:
            limit = numbers.with_unit(numbers.round_number(r.threshold), r.unit)
            parts.append(
                f"{in_panel.label(report, r.letter)}: the 95 % interval {bounds[0]} to {bounds[1]} includes the "
                f"threshold {limit}, so it could go either way."
            )
    said = [f"{' '.join(parts)} Other seeds may differ."] if parts else _no_interval(report)
    return said + ([rates] if (rates := panel_rates(report)) else [])


def _no_interval(report: DiagnosticReport) -> list[str]:
    """That nothing has an interval, and why, where something was judged."""
    if not any(r.state in (State.FIRE, State.PASS) and r.reason != NON_FINITE for r in report.readings):
        return []
    why = f"{outline.samples_in_words(report)} are too few" if in_short.few_samples(report) else _NUMBERS_ALONE
    return [f"There is no 95 % interval: {why}. How far chance moves these numbers is not known."]


_NUMBERS_ALONE = "the numbers came without one"


def _next(report: DiagnosticReport) -> list[str]:
    """What whoever fires says is to be done, and how to measure what is missing."""
    # What only informs tells of no step to take where the verdict is a pass.
    fired = [*in_panel.fired(report), *(in_panel.fired_beside(report) if report.outcome == "fail" else ())]
    # Where numbers are not finite, no other number says what is to be done.
    broken = [reading for reading in fired if reading.reason == NON_FINITE]
    steps = [remedy(report, reading) for reading in broken or fired]
    gaps = [outline.sentence(report, r) for r in report.readings if r.state in MISSING]
    lines = list(dict.fromkeys(step for step in (*steps, *gaps) if step))
    return _some(lines) or [
        "When you report the accuracy, report the frozen baseline too; repeat with more seeds (walkback.combine)."
    ]


def remedy(report: DiagnosticReport, reading: Reading) -> str:
    """What whoever fires says is to be done; empty where nobody knows it."""
    found = by_letter(reading.letter)
    if reading.reason == NON_FINITE:
        said = found.non_finite_remedy if found is not None else FIND_THE_FIRST
        # Where the inputs were at hand they were looked at.
        return said.replace(CHECK_INPUTS, shortened(report.provenance.get(NON_FINITE_SOURCE, CHECK_INPUTS), 400))
    return found.remedy_for(reading.case) if found is not None else ""


def _alignment(report: DiagnosticReport) -> list[str]:
    """That one block carries the mean, where it does."""
    words = in_sentences(report.alignment.sites) if report.alignment is not None else ""
    return [in_block_names(report, words)] if words else []


def _scores(report: DiagnosticReport) -> list[str]:
    own = "; ".join(filter(None, [score_words(report.headline_score), accuracy_words(report)]))
    if baseline := baseline_words(report):
        own = f"{own or 'not known'}; {baseline} with {_frozen(report)}"
    return [own] if own else []


def _frozen(report: DiagnosticReport) -> str:
    """Which blocks the baseline did not train."""
    if report.frozen is None:
        return "blocks left at random (the record does not say which)"
    if report.frozen.blocks == (report.sites or ())[1:]:
        return "the same blocks left at random"
    return f"{_listed(report.frozen.blocks)} left at random"


HOW = {"found by structure": "found by structure", "given": "named by the caller"}
"""How the blocks came to be known: as a record has it, and as a reader is told."""


def _measured(report: DiagnosticReport) -> list[str]:
    """The blocks by name, how they were found, and on how many samples."""
    names = (report.sites or ())[1:]
    if not names:
        return [shortened(basis, NOTE_LENGTH)] if (basis := outline.basis(report)) else []
    known, _, found = report.provenance.get("blocks", "").rpartition(" (")
    found = found.rstrip(")")
    # Sites are named after what they are the input of, where a function stands between two modules.
    own = known.split(",")
    names = tuple(own) if len(own) == len(names) else names
    how = f" ({HOW[found]})" if found in HOW else ""
    samples = f", on {outline.samples_in_words(report)}{_others_scored(report)}" if report.samples else ""
    return [f"{count(len(names), 'block')}: {_listed(names)}{how}{samples}"]


def _others_scored(report: DiagnosticReport) -> str:
    """Why the score is of another number of samples, where it is: gradients cost more than answers."""
    scored = report.headline_samples
    if scored is None or report.tokens is not None or scored == report.samples:
        return ""
    more = "more, because answers cost less than gradients" if scored > (report.samples or 0) else "fewer"
    return f" (the score is counted on {more})"


def _listed(names: Sequence[str]) -> str:
    shown = [middle_out(table_name(name), NAME_LENGTH) for name in names]
    return ", ".join(shown) if len(shown) <= _MOST_BLOCKS else f"{shown[0]}, {shown[1]}, … {shown[-1]}"
