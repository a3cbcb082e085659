"""Verdicts as SARIF 2.1.0: what decides against a network, and what was not measured, for code-review tools.

The place of a result is the file that the network came from: a recorded report, or the code that returned the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walkback.lint.formats import sarif_log, sarif_place
from walkback.present import in_panel, outline
from walkback.present.brief import fired_words, remedy
from walkback.present.plain import NAME_LENGTH, one_line, shortened
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.panels.base import MISSING
from walkback.protocol.records import DiagnosticReport, Reading, State


@dataclass(frozen=True)
class Judged:
    """A report, and where its network comes from."""

    name: str
    report: DiagnosticReport
    file: Path
    line: int = 1


def as_sarif(judged: Sequence[Judged]) -> str:
    """A log with one result for each diagnostic that fires or, of a network that is incomplete, was not measured.

    What decides is an error, what fires beside the verdict a note, and what is missing a warning. A network that
    passes has no result of what passed: an empty log says that nothing was found.
    """
    found = [(each, reading, level) for each in judged for reading, level in _of(each.report)]
    rules: dict[str, dict[str, Any]] = {}
    for _, reading, _level in found:
        rules.setdefault(_rule_id(reading), _rule(reading))
    order = {rule: index for index, rule in enumerate(rules)}
    results = [
        {
            "ruleId": _rule_id(reading),
            "ruleIndex": order[_rule_id(reading)],
            "level": level,
            "message": {"text": _words(each, reading)},
            "locations": [sarif_place(_from_here(each.file), each.line)],
        }
        for each, reading, level in found
    ]
    return sarif_log(list(rules.values()), results)


def _of(report: DiagnosticReport) -> list[tuple[Reading, str]]:
    found = [(reading, "error") for reading in in_panel.fired(report)]
    found += [(reading, "note") for reading in in_panel.fired_beside(report)]
    if report.outcome == "incomplete":
        panel = in_panel.panel_of(report)
        gaps = [r for r in report.readings if r.state in MISSING and panel.member(r.letter) is not None]
        found += [(reading, "warning") for reading in gaps]
    return found


def _rule_id(reading: Reading) -> str:
    return f"diagnostic-{reading.letter}"


def _rule(reading: Reading) -> dict[str, Any]:
    diagnostic = by_letter(reading.letter)
    title = one_line(reading.name)
    question = diagnostic.question if diagnostic is not None else title
    return {"id": _rule_id(reading), "shortDescription": {"text": title}, "fullDescription": {"text": question}}


def _words(each: Judged, reading: Reading) -> str:
    name = shortened(each.name or each.report.method_name or "network", NAME_LENGTH)
    if reading.state is not State.FIRE:
        why = outline.sentence(each.report, reading)
        return f"{name}: {in_panel.named(each.report, reading)} was not measured. {why}".strip()
    return f"{name}: {fired_words(each.report, reading)}. {remedy(each.report, reading)}".strip()


def _from_here(file: Path) -> str:
    """The path from the directory that the command runs in, as code-review tools know files; else as it is."""
    absolute, here = file.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else file)
