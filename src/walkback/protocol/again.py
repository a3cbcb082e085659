"""A record judged again: a file may say anything of itself, and its measurements are what counts. No torch."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence

from walkback.errors import WalkbackWarning
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Reading, StoredVerdict
from walkback.protocol.schema import shortened
from walkback.protocol.verdict import INCOMPLETE, is_complete, verdict_of
from walkback.protocol.wording import figure


def judge_again(record: DiagnosticReport) -> DiagnosticReport:
    """The report of a record, with readings and verdict made anew from its measurements and thresholds.

    A verdict that was `incomplete` asked for all four diagnostics, and is held to them again. Readings of diagnostics
    that are not known here stay as they were stored: they can add a walk-back, and take none away.
    """
    measured = record.measurements
    if measured.alignment is not None:
        measured = measured.model_copy(update={"alignment": measured.alignment.model_copy(update={"mark": ""})})
    judged = judge(
        measured,
        record.thresholds,
        method_name=record.method_name,
        notes=record.notes,
        seed=record.seed,
        warnings=record.warnings,
        provenance=record.provenance,
    )
    known = {reading.letter for reading in judged.readings}
    readings = judged.readings + tuple(r for r in record.readings if r.letter not in known)
    verdict = verdict_of(readings, require_all=record.verdict.startswith(INCOMPLETE))
    anew = {"readings": readings, "verdict": verdict, "complete": is_complete(readings)}
    return judged.model_copy(update=anew | {"stored": _stored(record, verdict, readings)})


def _stored(record: DiagnosticReport, verdict: str, readings: Sequence[Reading]) -> StoredVerdict | None:
    """What the record said, where it differs; else what it was found to have said before, by whoever saved it."""
    here = {reading.letter: reading for reading in readings}
    differs = [words for there in record.readings if (words := _difference(there, here[there.letter]))]
    if not differs and record.verdict in ("", verdict):
        return record.stored
    return StoredVerdict(verdict=record.verdict, version=version_of(record), differs=differs)


def version_of(record: DiagnosticReport) -> str:
    """The walkback that made a record, as the record says; empty where what it says is no version."""
    said = record.provenance.get("walkback", "")
    return said if re.fullmatch(r"[\w.+-]{1,40}", said) else ""


def _difference(there: Reading, here: Reading) -> str:
    """`(a) PASS there, FIRE here`, or the same of the figure; empty where both agree."""
    if there.state is not here.state:
        return f"({here.letter}) {there.state.value} there, {here.state.value} here"
    if same_figure(there.figure, here.figure):
        return ""
    return f"({here.letter}) {figure(there.figure)} there, {figure(here.figure)} here"


def same_figure(one: float | None, other: float | None) -> bool:
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
