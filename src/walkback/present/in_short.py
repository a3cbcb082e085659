"""The verdict in one plain sentence, for a reader who does not know the letters; and of many networks at once."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.present import in_panel, outline
from walkback.present.network import Network, by_method
from walkback.present.numbers import count
from walkback.present.plain import NOTE_LENGTH, shortened
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.drift_share import GROUP_SIZE
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.wording import listed
from walkback.protocol.words import NON_FINITE


def plain_verdict(report: DiagnosticReport) -> str:
    """What the verdict means for the result, and why, in a sentence or two without letters or symbols."""
    found, unknown = _found(report), _beside(report) + _unknown(report)
    why = f": {listed(found)}" if report.readings and found and not _fires_alone(report) else ""
    return f"{in_a_sentence(report)}{why}.{unknown if report.readings else ''}"


def in_a_sentence(report: DiagnosticReport) -> str:
    """What the verdict means for the result, without the full stop."""
    if not report.readings:
        return "This network was not judged"
    if alone := _fires_alone(report):
        return alone
    if _found(report):
        return "Do not rely on this result as it stands"
    if report.outcome == "pass":
        return _passes(report)
    return "Too little was measured to say whether this result can be relied on"


def _passes(report: DiagnosticReport) -> str:
    """That nothing fires; and, where that says little, why."""
    if little := _too_little(report):
        return little
    if warnings := len(outline.warnings(report)):
        nothing = "Nothing that decides" if in_panel.fired_beside(report) else "No diagnostic"
        return f"{nothing} fires, but there {'is a warning' if warnings == 1 else f'are {warnings} warnings'}"
    what = "decides" if in_panel.fired_beside(report) else "was measured"
    return f"Nothing that {what} speaks against this result"


def _too_little(report: DiagnosticReport) -> str:
    """On how little a pass rests: on one diagnostic, or on so few samples that nothing has an interval."""
    deciding, passed = in_panel.deciders(report), in_panel.passed(report)
    if len(passed) == 1 and len(deciding) > 1:
        return f"1 of {len(deciding)} diagnostics passes, and no other gives an answer: that is too little to rely on"
    if few_samples(report) and all(reading.interval is None for reading in passed):
        return f"Nothing fires on {outline.samples_in_words(report)}, and these are too few to rely on"
    return ""


def few_samples(report: DiagnosticReport) -> bool:
    """Whether there are fewer than the group that the published convention averages over."""
    return report.samples is not None and report.samples < GROUP_SIZE


def _found(report: DiagnosticReport) -> list[str]:
    fired = in_panel.fired(report)
    if any(r.reason == NON_FINITE for r in fired):
        return ["its numbers are not finite"]
    return [meaning(report, r) for r in fired]


def _fires_alone(report: DiagnosticReport) -> str:
    """What is said of a firing that nothing else confirms, of a diagnostic that fires on healthy networks too."""
    fired = in_panel.fired(report)
    diagnostic = by_letter(fired[0].letter) if len(fired) == 1 and fired[0].reason != NON_FINITE else None
    if diagnostic is None or fired[0].name != diagnostic.title:
        return ""
    return in_panel.in_its_words(report, diagnostic.fires_alone)


def fires_on_healthy_ones_too(report: DiagnosticReport) -> bool:
    """Whether all that fires is one diagnostic that says little alone."""
    return bool(_fires_alone(report))


def _beside(report: DiagnosticReport) -> str:
    """What fired without deciding."""
    fired = [meaning(report, r) for r in in_panel.fired_beside(report)]
    return f" Not part of the verdict: {listed(fired)}." if fired else ""


def meaning(report: DiagnosticReport, reading: Reading) -> str:
    """What a firing means, in a clause without letters or symbols."""
    if reading.reason == NON_FINITE:
        return "numbers are not finite"
    diagnostic = by_letter(reading.letter)
    if diagnostic is None:
        return shortened(reading.reason or reading.name, NOTE_LENGTH)
    return diagnostic.meaning_of(reading, report)


def _unknown(report: DiagnosticReport) -> str:
    gaps = [r for r in report.readings if r.state in (State.NOT_MEASURED, State.UNDECIDED)]
    words = [_subject(r) for r in gaps]
    return f" Not known: {listed(words)}." if words else ""


def _subject(reading: Reading) -> str:
    diagnostic = by_letter(reading.letter)
    return (diagnostic.subject or diagnostic.title) if diagnostic is not None else shortened(reading.name, NOTE_LENGTH)


def grid_state(networks: Sequence[Network]) -> State:
    """The state whose colour and shape a grid takes: that of its worst network."""
    outcomes = {network.report.outcome for network in networks}
    if "fail" in outcomes:
        return State.FIRE
    return State.PASS if outcomes == {"pass"} else State.NOT_MEASURED


def grid_verdict(networks: Sequence[Network]) -> str:
    """`3 methods, 9 networks: 1 needs walk-back on every seed (DFA); 1 is mixed over its seeds (EP); …`."""
    methods = by_method(networks)
    groups: dict[str, list[str]] = {}
    for method, members in methods.items():
        kinds = {_kind(network.report) for network in members}
        groups.setdefault(kinds.pop() if len(kinds) == 1 else _MIXED, []).append(method)
    said = in_panel.panel_of(networks[0].report).said
    order = {said("fail"): f"{said('fail')} on every seed", _MIXED: _MIXED}
    order |= {words: words for words in (said("pass"), said("incomplete"), _NOT_JUDGED)}
    parts = [_group(words, groups[kind]) for kind, words in order.items() if kind in groups]
    return f"{count(len(methods), 'method')}, {count(len(networks), 'network')}: {'; '.join(parts)}"


def _kind(report: DiagnosticReport) -> str:
    return _NOT_JUDGED if report.decision is None else in_panel.panel_of(report).said(report.outcome)


_MIXED, _NOT_JUDGED = "is mixed over its seeds", "was not judged"
_MOST_NAMED = 5
_PLURAL = {"needs": "need", "is": "are", "was": "were", "its": "their", "passes": "pass", "fails": "fail"}


def _group(words: str, methods: Sequence[str]) -> str:
    more = len(methods) - _MOST_NAMED
    shown = ", ".join(methods[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    if len(methods) == 1:
        return f"1 {words} ({shown})"
    plural = " ".join(_PLURAL.get(word, word) for word in words.split())
    return f"{len(methods)} {plural} ({shown})"
