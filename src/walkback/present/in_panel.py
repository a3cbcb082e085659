"""A report in the words of its deciding panel: labels, titles and roles of readings, and verdicts of other panels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, one_line, shortened
from walkback.protocol.panels import Panel, panel_on_record
from walkback.protocol.records import DiagnosticReport, PanelVerdict, Reading, State
from walkback.protocol.words import NON_FINITE

ASKED = "to ask for"
_ROLES = {"warns": "warns only", "informs": "informs only"}
_LETTER = re.compile(r"\(([a-z][a-z0-9]{0,2})\)")


def panel_of(report: DiagnosticReport) -> Panel:
    """The panel that decides; the usual one for a report that was never judged."""
    return panel_on_record(report.panel or None)


def limits(report: DiagnosticReport) -> dict[str, float | None]:
    """The thresholds that it was judged by, by name: the deciding panel's own where it has some."""
    return report.thresholds.with_fixed(panel_of(report).fixed).model_extra or {}


def label(report: DiagnosticReport, letter: str) -> str:
    """What the deciding panel calls a diagnostic: `(a)`, or `D1`."""
    return one_line(panel_of(report).label(letter))


def name(report: DiagnosticReport, reading: Reading) -> str:
    """The title of a reading: the panel's own, or the diagnostic's."""
    member = panel_of(report).member(reading.letter)
    return middle_out((member.title if member is not None else "") or reading.name, NAME_LENGTH)


def named(report: DiagnosticReport, reading: Reading) -> str:
    """The label and the title: `(a) residual growth`, `D1 scale stability`; a label that is the title stands alone."""
    short, title = label(report, reading.letter), name(report, reading)
    return title if short == title else f"{short} {title}"


def role(report: DiagnosticReport, letter: str) -> str:
    """What a firing does, in a few words, where it does not decide; empty where it does."""
    panel = panel_of(report)
    member = panel.member(letter)
    if member is None:
        return f"not in {panel.name}"
    if member.joined and (others := [m for m in panel.members if m.joined == member.joined and m is not member]):
        return f"together with {', '.join(panel.label(other.letter) for other in others)}"
    if member.role == "decides" and member.sure:
        return "decides where its interval is beyond that"
    return _ROLES.get(member.role, "")


def decides(report: DiagnosticReport, reading: Reading) -> bool:
    """Whether a firing of this reading fails the network: NaN and Inf do, whoever finds them.

    One that is joined with others does where they fire too, and one that must be sure where its interval is.
    """
    member = panel_of(report).member(reading.letter)
    if reading.reason != NON_FINITE and member is not None and (member.joined or member.sure):
        return report.outcome == "fail" and reading.letter in report.decided_by
    return reading.reason == NON_FINITE or not role(report, reading.letter)


def deciders(report: DiagnosticReport) -> list[str]:
    """The letters of the diagnostics that decide in its panel."""
    return [member.letter for member in panel_of(report).members if member.role == "decides"]


def passed(report: DiagnosticReport) -> list[Reading]:
    """The readings that pass and would have decided."""
    return [r for r in report.readings if r.state is State.PASS and r.letter in deciders(report)]


def fired(report: DiagnosticReport) -> list[Reading]:
    """The readings that fire and decide."""
    return [r for r in report.readings if r.state is State.FIRE and decides(report, r)]


def fired_beside(report: DiagnosticReport) -> list[Reading]:
    """The readings that fire and do not decide."""
    return [r for r in report.readings if r.state is State.FIRE and not decides(report, r)]


def in_its_words(report: DiagnosticReport, text: str) -> str:
    """A sentence with the panel's labels in the place of letters in brackets."""
    panel = panel_of(report)
    return _LETTER.sub(lambda found: panel.label(found[1]), text)


def other_verdicts(report: DiagnosticReport) -> str:
    """What the other panels say, in a line: `june2026: FAIL(D1+D2)`; empty where there are none."""
    others = [f"{verdict.panel}: {_words(verdict)}" for n, verdict in report.verdicts.items() if n != report.panel]
    return shortened("; ".join(others), NOTE_LENGTH)


def _words(verdict: PanelVerdict) -> str:
    """The words of a verdict; of a pass on fewer diagnostics than decide, on how many of them."""
    part = on_part_of(verdict)
    if not part:
        return verdict.words
    kind, _, letters = verdict.words.partition(" on ")
    return f"{kind} on {part}{f', {letters}' if letters else ''}"


def on_part_of(verdict: PanelVerdict) -> str:
    """`6 of 14 diagnostics`, where a pass rests on fewer than decide in its panel; empty for every other verdict."""
    deciding = [member.letter for member in panel_on_record(verdict.panel).members if member.role == "decides"]
    there = [letter for letter in verdict.decided_by if letter in deciding]
    if verdict.outcome != "pass" or len(there) == len(deciding):
        return ""
    return f"{len(there)} of {len(deciding)} diagnostics"


def to_ask_for(report: DiagnosticReport) -> str:
    """What the deciding panel would have a reader ask the authors for; empty where it names nothing."""
    said = report.decision.beside if report.decision is not None else {}
    return shortened(said.get(ASKED, ""), 4 * NOTE_LENGTH)


def other_verdicts_of_several(reports: Sequence[DiagnosticReport]) -> str:
    """The same of many networks, as counts: `june2026: 12 FAIL, 3 INCOMPLETE`."""
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        for panel, verdict in report.verdicts.items():
            if panel != report.panel:
                word, part = panel_on_record(panel).short(verdict.outcome), on_part_of(verdict)
                counts.setdefault(panel, Counter())[f"{word} ({part})" if part else word] += 1
    return "; ".join(f"{panel}: {', '.join(f'{n} {w}' for w, n in found.items())}" for panel, found in counts.items())
