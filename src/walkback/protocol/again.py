"""A record judged again: a file may say anything of itself, and its measurements are what counts. No torch."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence

from walkback.errors import WalkbackWarning
from walkback.protocol.diagnostics.known import by_letter
from walkback.protocol.judge import judge
from walkback.protocol.panels import DECIDING
from walkback.protocol.records import DiagnosticReport, Measurements, Reading, State, StoredVerdict
from walkback.protocol.schema import shortened
from walkback.protocol.verdict import INCOMPLETE
from walkback.protocol.wording import written
from walkback.protocol.words import PUBLISHED_PANEL, is_published
from walkback.registry import PANELS


def judge_again(record: DiagnosticReport) -> DiagnosticReport:
    """The report of a record, with readings and verdict made anew from its measurements and thresholds.

    A verdict that was `incomplete`, and is not unless all diagnostics are asked for, is held to them again. Readings of
    diagnostics that are not known here stay as they were stored, and no panel counts them.
    """
    measured = record.measurements
    if measured.alignment is not None:
        measured = measured.model_copy(update={"alignment": measured.alignment.model_copy(update={"mark": ""})})
    judged = _judged(record, measured, require_all=_asked_for_all(record))
    if _was_incomplete(record) and judged.outcome != "incomplete" and _same_panel(record, judged):
        judged = _judged(record, measured, require_all=True)
    here = {reading.letter for reading in judged.readings}
    unknown = tuple(r for r in record.readings if r.letter not in here and by_letter(r.letter) is None)
    judged = judged.model_copy(update={"readings": judged.readings + unknown})
    return judged.model_copy(update={"stored": _stored(record, judged)})


def _judged(record: DiagnosticReport, measured: Measurements, require_all: bool) -> DiagnosticReport:
    panel, warned = _panel_of(record)
    return judge(
        measured,
        record.thresholds,
        panel=panel,
        method_name=record.method_name,
        notes=record.notes,
        seed=record.seed,
        require_all=require_all,
        warnings=[*record.warnings, *(words for words in warned if words not in record.warnings)],
        provenance=record.provenance,
    )


def _asked_for_all(record: DiagnosticReport) -> bool:
    """Whether a record asked for all diagnostics: of the published rule `incomplete` alone shows it.

    The rules of other panels are incomplete for reasons of their own.
    """
    published = record.verdicts.get(PUBLISHED_PANEL)
    said = [published.words] if published is not None else []
    said += [record.verdict] if is_published(record.verdict) and record.panel in ("", PUBLISHED_PANEL) else []
    return any(words.startswith(INCOMPLETE) for words in said)


def _was_incomplete(record: DiagnosticReport) -> bool:
    return record.decision is not None and record.decision.outcome == "incomplete"


def _same_panel(record: DiagnosticReport, judged: DiagnosticReport) -> bool:
    """Whether one version of one panel decided on both; on a record of 0.1 the published one did."""
    if record.decision is None or judged.decision is None:
        return (record.panel or PUBLISHED_PANEL) == judged.panel
    return (record.panel, record.decision.version) == (judged.panel, judged.decision.version)


def _panel_of(record: DiagnosticReport) -> tuple[str, list[str]]:
    """The panel that decides on a record: its own, unless that is not to be had.

    Only names that are known: a file must not say what is imported.
    """
    if record.panel in ("", *PANELS):
        return record.panel or DECIDING, []
    said = shortened(record.panel)
    return DECIDING, [f"the panel {said} decided on this record and is not installed; {DECIDING} does here."]


def _stored(record: DiagnosticReport, judged: DiagnosticReport) -> StoredVerdict | None:
    """What the record said, where it differs; else what it was found to have said before, by whoever saved it."""
    here = {reading.letter: reading for reading in judged.readings}
    both = [(there, here[there.letter]) for there in record.readings if there.letter in here]
    differs = [words for pair in both if (words := _difference(*pair))]
    said = [*differs, *_other_verdicts(record, judged)]
    if not said and (record.verdict in _agreeing(judged) or not _same_panel(record, judged)):
        return record.stored
    return StoredVerdict(verdict=record.verdict, version=version_of(record), differs=tuple(said))


def _agreeing(judged: DiagnosticReport) -> tuple[str, ...]:
    """What a record may say of itself: nothing, this verdict, or, as records of before did, the published one."""
    return "", judged.verdict, judged.verdicts[PUBLISHED_PANEL].words


def _other_verdicts(record: DiagnosticReport, judged: DiagnosticReport) -> Iterator[str]:
    """Of each panel in the same version."""
    for name, there in record.verdicts.items():
        here = judged.verdicts.get(name)
        if here is None or there.version != here.version:
            continue
        if there.words not in (here.words, _not_requiring_all(name, record, judged)):
            yield f"{name}: {shortened(there.words)} there, {shortened(here.words)} here"


def _not_requiring_all(name: str, record: DiagnosticReport, judged: DiagnosticReport) -> str:
    """What a panel says where only the published words were `incomplete`, which does not show what was asked for."""
    if not _asked_for_all(record):
        return judged.verdicts[name].words
    verdict = judge(judged.measurements, record.thresholds).verdicts.get(name)
    return verdict.words if verdict is not None else ""


def version_of(record: DiagnosticReport) -> str:
    """The walkback that made a record, as the record says; empty where what it says is no version."""
    said = record.provenance.get("walkback", "")
    return said if re.fullmatch(r"[\w.+-]{1,40}", said) else ""


def _difference(there: Reading, here: Reading) -> str:
    """`(a) PASS there, FIRE here`, or the same of the figure; empty where both agree."""
    if {there.state, here.state} == {State.PASS, State.UNDECIDED} and same_number(there.value, here.value):
        return ""  # what counts as undecided may be refined; the verdicts are compared by themselves
    if there.state is not here.state:
        return f"({here.letter}) {there.state.value} there, {here.state.value} here"
    if same_number(there.value, here.value):
        return ""
    return f"({here.letter}) {written(there.value)} there, {written(here.value)} here"


def same_number(one: float | None, other: float | None) -> bool:
    """Whether two figures are one, to six digits, which is what traces keep; NaN is NaN."""
    if one is None or other is None:
        return one is other
    return one == other or (one != one and other != other) or math.isclose(one, other, rel_tol=1e-6)


def stored_words(report: DiagnosticReport) -> str:
    """What the record said, which version stored it, and what its measurements come to; empty where that is the same.

    Words of the record are in it: whoever shows the sentence escapes it.
    """
    said = report.stored
    if said is None:
        return ""
    by = f"walkback {said.version}" if said.version else "a program that it does not name"
    where = f" ({'; '.join(said.differs)})" if said.differs else ""
    return (
        f"the record says “{said.verdict or 'nothing'}”, stored by {by}; judged again, its measurements come to "
        f"“{report.verdict}”{where}."
    )


def warn_of_stored(reports: Sequence[DiagnosticReport], source: object) -> None:
    """Warn of records that say something else than their measurements, where no page of theirs will say it."""
    for report in reports:
        if report.stored is not None:
            name = f"{shortened(report.method_name)}{'' if report.seed is None else f', seed {report.seed}'}"
            warnings.warn(f"{source}, {name}: {stored_words(report)}", WalkbackWarning, stacklevel=3)
