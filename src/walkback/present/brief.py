"""A report in about ten lines: the outcome, why, how sure, what to do next, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.present import in_panel, in_short, numbers, outline
from walkback.present.evidence import beside_verdict
from walkback.present.numbers import count, reading_value
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened
from walkback.present.score_words import accuracy_words, baseline_words, score_words
from walkback.protocol.carrying import in_sentences
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.panels.base import MISSING
from walkback.protocol.records import DiagnosticReport, Reading, State

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


def place(report: DiagnosticReport, site: int) -> str:
    """A site by the name of the block that hands it on; by its number where the record has no names."""
    names = report.sites or ()
    if site < len(names):
        return middle_out(names[site], NAME_LENGTH)
    return f"block {site}" if site else "the input of block 1"


def _why(report: DiagnosticReport) -> list[str]:
    """What decided: everything that fired, in plain words; else everything that passed, in one line."""
    fired = [_reading(report, reading) for reading in report.readings if reading.state is State.FIRE]
    if fired:
        return _some(fired)
    passed = [f"{in_panel.named(report, r)} {reading_value(r)}" for r in report.readings if r.state is State.PASS]
    return [f"nothing fires: {', '.join(passed)}"] if passed else []


def _reading(report: DiagnosticReport, reading: Reading) -> str:
    at = f" at {place(report, reading.site)}" if reading.site is not None else ""
    role = "" if in_panel.decides(report, reading) else f", {in_panel.role(report, reading.letter)}"
    value = f"{in_panel.named(report, reading)} {reading_value(reading)}{at}"
    return f"{in_short.meaning(reading)}: {value} ({outline.fires_when(reading)}{role})"


def _unknown(report: DiagnosticReport) -> list[str]:
    gaps = [in_panel.named(report, r) for r in report.readings if r.state in MISSING]
    return [", ".join(gaps)] if gaps else []


def _how_sure(report: DiagnosticReport) -> list[str]:
    """Whether the intervals clear the thresholds; of one network they say nothing of other seeds."""
    judged = [r for r in report.readings if r.state in (State.FIRE, State.PASS) and r.interval is not None]
    clear = [in_panel.label(report, r.letter) for r in judged if not r.fragile]
    parts = [f"the 95 % interval of {', '.join(clear)} clears the threshold"] if clear else []
    for r in judged:
        if r.fragile and (bounds := numbers.interval_bounds(r)) is not None:
            high = numbers.with_unit(bounds[1], r.unit)
            crossed = "crosses it" if parts else "crosses the threshold"
            which = "that" if parts else "the 95 % interval"
            parts.append(f"{which} of {in_panel.label(report, r.letter)}, {bounds[0]} to {high}, {crossed}")
    return [f"{'; '.join(parts)}; other seeds may differ"] if parts else []


def _next(report: DiagnosticReport) -> list[str]:
    """What whoever fires says is to be done, and how to measure what is missing."""
    fired = [r for r in report.readings if r.state is State.FIRE]
    steps = [found.remedy for r in fired if (found := by_letter(r.letter)) is not None and found.remedy]
    gaps = [outline.sentence(report, r) for r in report.readings if r.state in MISSING]
    lines = list(dict.fromkeys(step for step in (*steps, *gaps) if step))
    return _some(lines) or [
        "Give the frozen baseline beside the accuracy, and the same for more seeds (walkback.combine)."
    ]


def _alignment(report: DiagnosticReport) -> list[str]:
    """That one block carries the mean, where it does."""
    words = in_sentences(report.alignment.sites) if report.alignment is not None else ""
    return [words] if words else []


def _scores(report: DiagnosticReport) -> list[str]:
    own = "; ".join(filter(None, [score_words(report.headline_score), accuracy_words(report)]))
    if baseline := baseline_words(report):
        own = f"{own or 'not known'}; {baseline} with {_frozen(report)} left at random"
    return [own] if own else []


def _frozen(report: DiagnosticReport) -> str:
    """Which blocks the baseline did not train."""
    if report.frozen is None:
        return "blocks that are not known"
    if report.frozen.blocks == (report.sites or ())[1:]:
        return "the same blocks"
    return _listed(report.frozen.blocks)


def _measured(report: DiagnosticReport) -> list[str]:
    """The blocks by name, how they were found, and on how many samples."""
    names = (report.sites or ())[1:]
    if not names:
        return [shortened(basis, NOTE_LENGTH)] if (basis := outline.basis(report)) else []
    found = report.provenance.get("blocks", "").rpartition(" (")[2].rstrip(")")
    how = f" ({shortened(found, 60)})" if found in ("found by structure", "given") else ""
    samples = f", on {outline.samples_in_words(report)}" if report.samples else ""
    return [f"{count(len(names), 'block')}: {_listed(names)}{how}{samples}"]


def _listed(names: Sequence[str]) -> str:
    shown = [middle_out(name, NAME_LENGTH) for name in names]
    return ", ".join(shown) if len(shown) <= _MOST_BLOCKS else f"{shown[0]}, {shown[1]}, … {shown[-1]}"
