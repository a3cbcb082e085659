"""Which reports are several seeds of one method, and which are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walkback.errors import InputError
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import shortened


def refuse_uncombinable(reports: Sequence[DiagnosticReport]) -> None:
    """Raise for anything but one report for each seed of one method, judged by the same diagnostics."""
    refuse_others(reports, "combine", ", one per seed")
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


def refuse_others(reports: Any, who: str, each_of: str = "") -> None:
    """Raise for files that are named, one report that is in no list, and whatever else is not a list of reports."""
    alone = isinstance(reports, (str, DiagnosticReport)) or not isinstance(reports, Sequence)
    given = [reports] if alone else reports
    if not given:
        raise InputError(f"{who} got no reports; expected a list of them{each_of}.")
    if alone or any(not isinstance(each, DiagnosticReport) for each in given):
        other = next((each for each in given if not isinstance(each, DiagnosticReport)), given[0])
        raise InputError(
            f"{who} got {_named(other)}; expected a list of reports{each_of}. Load each file with "
            "walkback.DiagnosticReport.load."
        )


def _named(other: Any) -> str:
    return f"the text {shortened(other)}" if isinstance(other, str) else f"one {type(other).__name__}"


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


def _check_units(reports: Sequence[DiagnosticReport]) -> None:
    """(d) has the unit of its score: percentage points of some seeds and perplexities of others have no mean."""
    for letter in (reading.letter for reading in reports[0].readings):
        readings = [report.reading(letter) for report in reports]
        units = list(dict.fromkeys(r.unit for r in readings if r.value is not None))
        if len(units) > 1:
            raise InputError(f"combine got ({letter}) in several units ({', '.join(units)}); give all seeds one.")
