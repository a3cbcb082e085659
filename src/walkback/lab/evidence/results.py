"""The directory of results, as evidence reads it: audits and studies by name, and which of them were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from walkback.errors import InputError, RecordError
from walkback.lab.runs.ids import checked_id, held_to_id
from walkback.protocol.again import warn_of_stored
from walkback.protocol.json_codec import from_json
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import STUDY_VERSION, audit_digest, read_json

SEEDS_NEEDED = 3
"""Of a method, for any claim on it: the published ones are of three."""


RECORDED = "recorded_"
"""How the name of an audit begins that another program made; studies of it are on record, its file is not."""


class NotOnRecordError(Exception):
    """A result that a claim needs is not there; the claim was not run."""


class Run(NamedTuple):
    """A run behind an audit, with the label that it has there."""

    label: str
    seed: int
    file: str
    result: dict[str, Any]
    """What `runs/ID.json` holds."""


class Results:
    """A directory of results; a `reader` remembers what was read through it."""

    def __init__(self, folder: str | Path, cache: dict[str, Any] | None = None) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"there is no directory {self.folder}. Give the directory of results with --results.")
        self.sources: list[str] = []
        self.asked: list[tuple[str, str]] = []
        """The rows that a claim is about: the audit and the method's label, each once."""
        self._cache: dict[str, Any] = {} if cache is None else cache

    def reader(self) -> Results:
        """The same results with a list of sources of its own."""
        return Results(self.folder, self._cache)

    def has(self, file: str) -> bool:
        """Whether a file is there."""
        return (self.folder / file).exists()

    def read(self, file: str) -> dict[str, Any]:
        """The JSON object in a file; one that is not there raises `NotOnRecordError`."""
        if not self.has(file):
            raise NotOnRecordError(f"{file} is not on record")
        if file not in self._cache:
            data = read_json(self.folder / file)
            if not isinstance(data, dict):
                raise RecordError(f"{self.folder / file} holds {type(data).__name__}, expected an object.")
            self._cache[file] = from_json(data)
        if file not in self.sources:
            self.sources.append(file)
        found: dict[str, Any] = self._cache[file]
        return found

    def reports(self, audit: str, *labels: str) -> list[DiagnosticReport]:
        """The reports of an audit, of these methods if any are named, all of whose seeds have to be there."""
        file = f"audit_{audit}.json"
        entries = self._entries(file, "reports")
        found = [DiagnosticReport.from_dict(entry, str(self.folder / file)) for entry in entries]
        warn_of_stored(found, self.folder / file)
        seeds = [(report.method_name, report.seed) for report in found]
        self._finished_rows(file, labels)
        self.about(audit, *labels or dict.fromkeys(label for label, _ in seeds))
        _require_seeds(file, seeds, labels or {label for label, _ in seeds})
        return [report for report in found if not labels or report.method_name in labels]

    def run_files(self, audit: str, *labels: str) -> list[Run]:
        """The runs behind an audit's rows of these methods, all of whose seeds have to be there."""
        file = f"audit_{audit}.json"
        rows = self._finished_rows(file, labels)
        self.about(audit, *labels)
        _require_seeds(file, [(row["label"], row["seed"]) for row in rows], labels)
        files = [f"runs/{checked_id(row['id'], self.folder / file)}.json" for row in rows]
        return [
            Run(row["label"], row["seed"], at, self._run(row["id"], at)) for row, at in zip(rows, files, strict=True)
        ]

    def about(self, audit: str, *labels: str) -> None:
        """Remember that a claim is about these rows of an audit."""
        self.asked += [(audit, label) for label in labels if (audit, label) not in self.asked]

    def rows_asked(self) -> list[dict[str, Any]]:
        """The rows of audits that the claim is about, as far as they are on record and finished."""
        found = []
        for audit, label in self.asked:
            rows = self.read(f"audit_{audit}.json").get("runs", ()) if self.has(f"audit_{audit}.json") else ()
            found += [{**row, "audit": audit} for row in rows if row["label"] == label and not row["error"]]
        return found

    def _run(self, run_id: str, file: str) -> dict[str, Any]:
        """What `runs/ID.json` holds, which has to be that run."""
        return held_to_id(self.read(file), run_id, self.folder / file)

    def _finished_rows(self, file: str, labels: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of an audit, of these methods if any are named; one that is not finished decides nothing."""
        rows = [row for row in self.read(file).get("runs", ()) if not labels or row["label"] in labels]
        seeds: dict[str, list[bool]] = {}
        for row in rows:
            seeds.setdefault(row["label"], []).append(not row["error"])
        waiting = [f"{sum(done)} of {len(done)} seeds of {label}" for label, done in seeds.items() if not all(done)]
        if waiting:
            raise NotOnRecordError(f"not all runs are finished: {file} has {', '.join(waiting)}")
        return rows

    def study(self, study: str, audit: str) -> dict[str, Any]:
        """The answer of a study for an audit; one of an older version, or of the audit as it was, does not count."""
        file, source = f"{study}_{audit}.json", f"audit_{audit}.json"
        if not self.has(file) and not self.has(source) and not audit.startswith(RECORDED):
            raise NotOnRecordError(f"{source} is not on record")
        answer = self.read(file)
        if answer.get("study_version") != STUDY_VERSION:
            again = f"walkback lab study {study.replace('_', '-')}"
            raise NotOnRecordError(f"{file} is of another version; make it again with: {again}")
        if self.has(source):
            self.read(source)
            if answer.get("audit_digest") != audit_digest(read_json(self.folder / source)):
                again = f"walkback lab study {study.replace('_', '-')} {self.folder / source}"
                raise NotOnRecordError(f"{file} is of another audit than {source}; make it again with: {again}")
        return answer

    def runs(self, study: str, audit: str, *labels: str) -> list[dict[str, Any]]:
        """The entries of a study that has one for each run, of these methods if any are named, on all their seeds."""
        self.study(study, audit)
        file = f"{study}_{audit}.json"
        if self.has(f"audit_{audit}.json"):
            self._finished_rows(f"audit_{audit}.json", labels)
        found = [run for run in self._entries(file, "runs") if not labels or run["label"] in labels]
        self.about(audit, *labels or dict.fromkeys(run["label"] for run in found))
        seeds = [(run["label"], run["seed"]) for run in found]
        _require_seeds(file, seeds, labels or {label for label, _ in seeds})
        return found

    def _entries(self, file: str, name: str) -> list[dict[str, Any]]:
        data = self.read(file)
        entries = data.get(name)
        if not isinstance(entries, list):
            raise RecordError(f"{self.folder / file} has no list of {name}. Make it again with walkback.")
        return entries


def _require_seeds(file: str, found: Iterable[tuple[str, int | None]], labels: Iterable[str]) -> None:
    """Every method has to be there on as many seeds as a claim is of."""
    pairs = set(found)
    for label in sorted(labels):
        seeds = sum(name == label for name, _ in pairs)
        if seeds < SEEDS_NEEDED:
            raise NotOnRecordError(f"{file} has {seeds} of {SEEDS_NEEDED} seeds of {label}, and a claim needs all")
