"""What was tried where a claim does not hold: runs on record that differ in one setting from those it is decided by.

Nobody lists them. Every run on record is compared with the runs behind the claim, setting by setting, and those with
the same seed and method that differ in one of them are told, with what became of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from walkback.lab.evidence.claim import Decided
from walkback.lab.evidence.deciding import span
from walkback.lab.evidence.results import Results
from walkback.lab.runs.ids import all_settings
from walkback.present.numbers import signed
from walkback.protocol.records import DiagnosticReport, State

SAMPLE_SHARED = ("seed", "method", "freezing")
"""Not factors of a method: what is compared has them alike."""
TOLD = ("a", "b")
"""The diagnostics of which it is told on how many of the runs they fire; (d) needs a baseline of its own."""


class Change(NamedTuple):
    """One setting of a method that another run has otherwise."""

    label: str
    setting: str
    was: str
    became: str


class Tried(NamedTuple):
    """The runs in which one setting was changed."""

    change: Change
    runs: tuple[str, ...]
    reports: tuple[DiagnosticReport, ...]

    @property
    def words(self) -> str:
        """What was changed, and what became of the networks."""
        found = [report for report in self.reports if report.headline_acc is not None]
        change = f"{self.change.label}, {self.change.setting} {self.change.was} → {self.change.became}"
        figures = [
            f"accuracy {span(report.headline_acc for report in found)}",
            f"growth {span(report.max_per_block_growth for report in found)}",
            f"‖g_L‖ {span(report.bp_grad_norms[-1] for report in found if report.bp_grad_norms)}",
            *(f"({letter}) fires on {_fired(self.reports, letter)}" for letter in TOLD),
        ]
        cosines = [report.alignment.sites for report in found if report.alignment and report.alignment.sites]
        if cosines and len({len(sites) for sites in cosines}) == 1:
            means = [sum(site) / len(site) for site in zip(*cosines, strict=True)]
            figures.append(f"cosine per block {' '.join(map(signed, means[:-1]))}")
        return f"{change} ({len(self.runs)} {'run' if len(self.runs) == 1 else 'runs'}): {', '.join(figures)}"


def _fired(reports: Sequence[DiagnosticReport], letter: str) -> str:
    fired = [report.reading(letter).state is State.FIRE for report in reports]
    return f"{sum(fired)} of {len(fired)}"


class Record:
    """The runs on record that learnt, each with all its settings."""

    def __init__(self, results: Results) -> None:
        self._results = results
        files = sorted((results.folder / "runs").glob("*.json"))
        found = (results.reader().read(f"runs/{path.name}") for path in files)
        self._runs = {run["id"]: run for run in found if run.get("report") and "config" in run}
        self._settings = {run_id: all_settings(run["config"]) for run_id, run in self._runs.items()}

    def one_factor(self, decided: Decided) -> list[Tried]:
        """What was tried around a claim, the label and the setting in their order."""
        behind = {row["id"] for row in decided.rows}
        changes = sorted({change for row in decided.rows for change in self._around(row, behind)}, key=_place)
        return [self._tried(change, tuple(runs)) for change, runs in _grouped(changes)]

    def _around(self, row: Mapping[str, Any], behind: set[str]) -> Iterator[tuple[Change, str]]:
        own = self._settings.get(row["id"])
        if own is None:
            return
        for run_id, settings in self._settings.items():
            changed = _changed(own, settings) if run_id not in behind else None
            if changed is not None:
                yield (
                    Change(f"{row['label']} of {row['audit']}", changed, _told(own[changed]), _told(settings[changed])),
                    run_id,
                )

    def _tried(self, change: Change, runs: tuple[str, ...]) -> Tried:
        reports = [DiagnosticReport.from_dict(self._runs[run]["report"], f"runs/{run}.json") for run in runs]
        return Tried(change, runs, tuple(reports))


def _changed(own: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The one setting that differs; None where none does, or several, or what is no factor."""
    if own.keys() != other.keys():
        return None
    differ = [name for name, value in own.items() if value != other[name]]
    return differ[0] if len(differ) == 1 and differ[0] not in SAMPLE_SHARED else None


def _told(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _place(found: tuple[Change, str]) -> tuple[str, ...]:
    return (*found[0], found[1])


def _grouped(found: Iterable[tuple[Change, str]]) -> Iterator[tuple[Change, list[str]]]:
    for change, group in groupby(found, key=lambda each: each[0]):
        yield change, [run for _, run in group]
