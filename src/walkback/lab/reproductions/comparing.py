"""Published numbers beside those of the records: no torch, and nothing is trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from walkback.errors import RecordError
from walkback.lab.reproductions.published import ANGLES, POINTS, SEED, Number, Reproduction
from walkback.lab.runs.ids import held_to_id, run_id_of
from walkback.lab.runs.shapes import require_result
from walkback.protocol.schema import read_json

ANGLES_FILE, ESTIMATE_FILE = "reproductions_angles.json", "reproductions_estimate.json"
State = Literal["reproduced", "explained", "differs", "not run"]
WORDS: Mapping[State, str] = {
    "reproduced": "reproduced",
    "explained": "differs, explained by one factor",
    "differs": "differs",
    "not run": "not run",
}


@dataclass(frozen=True)
class Measured:
    """A published number, and what a run here gave."""

    number: Number
    here: float | None
    """None where the run is not on record, or its weights were not asked."""

    @property
    def difference(self) -> float | None:
        """Ours less theirs."""
        return None if self.here is None else self.here - self.number.value

    @property
    def within(self) -> bool:
        """Whether it is within two points, or degrees; what was not measured is not."""
        return self.difference is not None and abs(self.difference) <= POINTS


@dataclass(frozen=True)
class Compared:
    """A reproduction with what is on record of it."""

    published: Reproduction
    runs: Mapping[str, Mapping[str, Any]]
    """The records by name: the empty one is the run itself, the others have one factor changed."""
    angles: Mapping[str, Mapping[str, Any]]
    hours: Mapping[str, float]

    @cached_property
    def numbers(self) -> dict[str, list[Measured]]:
        """Each published number beside every run that is on record."""
        return {
            name: [Measured(number, self._found(run, number)) for number in self.published.numbers]
            for name, run in self.runs.items()
        }

    @property
    def state(self) -> State:
        """`explained`: each number that misses is within two points in a run with one factor changed."""
        if "" not in self.runs:
            return "not run"
        if all(each.within for each in self.numbers[""]):
            return "reproduced"
        others = [found for name, found in self.numbers.items() if name]
        missed = [index for index, each in enumerate(self.numbers[""]) if not each.within]
        explained = all(any(found[index].within for found in others) for index in missed)
        return "explained" if explained else "differs"

    @property
    def missing(self) -> list[str]:
        """Runs that are not on record, by name."""
        return [name for name in run_ids(self.published) if name not in self.runs]

    def _found(self, run: Mapping[str, Any], number: Number) -> float | None:
        if number.quantity in ANGLES:
            asked = self.angles.get(run["id"], {}).get(number.quantity)
            return None if asked is None else float(asked)
        accuracies = {line["epoch"]: 100 * float(line["accuracy"]) for line in run["trace"]}
        if number.quantity == "best error":
            return 100 - max(accuracies.values())
        if number.epoch not in accuracies:
            return None
        return accuracies[number.epoch] if number.quantity == "accuracy" else 100 - accuracies[number.epoch]


def run_ids(published: Reproduction) -> dict[str, str]:
    """The ids of its runs by name, without building one."""
    from walkback.lab.runs.config import merged

    plain = {"seed": SEED, **published.settings}
    return {"": run_id_of(plain)} | {each.name: run_id_of(merged(plain, each.changes)) for each in published.one_factor}


def compared(wanted: Iterable[Reproduction], results: Path) -> list[Compared]:
    """Each with whatever the directory of results holds."""
    angles, hours = table_in(results / ANGLES_FILE, "runs"), table_in(results / ESTIMATE_FILE, "core_hours")
    return [Compared(each, _on_record(each, results), angles, hours) for each in wanted]


def _on_record(published: Reproduction, results: Path) -> dict[str, dict[str, Any]]:
    files = {name: (run_id, results / "runs" / f"{run_id}.json") for name, run_id in run_ids(published).items()}
    return {
        name: require_result(held_to_id(read_json(path), run_id, path), path)
        for name, (run_id, path) in files.items()
        if path.exists()
    }


def table_in(path: Path, name: str) -> dict[str, Any]:
    """A table of a file of results; nothing where there is no such file."""
    if not path.exists():
        return {}
    found = read_json(path)
    table = found.get(name) if isinstance(found, dict) else None
    if not isinstance(table, dict):
        raise RecordError(f"{path} has no table {name!r}. Delete it; `walkback lab reproduce` makes it again.")
    return table
