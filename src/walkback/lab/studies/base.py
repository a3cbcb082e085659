"""What every study shares: its shape, the file it is kept in, and the page that is drawn from those files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from walkback.errors import RecordError
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.verbs import todays
from walkback.lab.studies.audited import Audit
from walkback.present.numbers import written
from walkback.present.page import Grid, Heading, Page
from walkback.protocol.json_codec import as_json, json_text, read_json
from walkback.protocol.json_codec import number as number
from walkback.protocol.panels import panel_on_record
from walkback.protocol.records import DiagnosticReport, State
from walkback.protocol.schema import STUDY_VERSION, write_whole
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.what_is import Kind, require, what_is

_AT = DiagnosticThresholds()
HOW_TO_READ = (
    "Each section is one audit: a grid of methods and seeds. Those of this project whose name begins with “source” "
    "have the methods as the study behind the protocol defines them, its others have variants of its own "
    "(docs/EVIDENCE.md names both). A test “fires” where something is wrong: (a) one block multiplies the hidden state "
    f"by more than {_AT.h_norm_explosion_ratio:g}; (b) the true gradient at the last block is under "
    f"{_AT.g_norm_floor:g}; (c) the gradients of different batches share one direction, with a mean cosine above "
    f"{_AT.stability_drift_ceiling:g}; (d) trained blocks are less than {_AT.frozen_acc_margin_pp:g} points better "
    "than blocks left at random. Γ is the cosine between what a method tells a block, its credit, and the true "
    "gradient; “deep” leaves out the first. docs/glossary.md has the other words."
)
"""What stands on every page for readers who come to it first."""
MANY = 8
"""How many missing networks are named."""
Result = Mapping[str, Any]
Parts = Sequence[str | Grid | Heading]


class Study(NamedTuple):
    """One question."""

    name: str
    title: str
    question: str
    """What is asked and by which rule it is answered, as the page says it."""
    answer: Callable[[Audit], dict[str, Any]]
    paragraphs: Callable[[Result], Parts]
    """The answer as paragraphs and tables, from its JSON alone."""
    applies: Callable[[Audit], bool] = lambda audit: True
    """Whether the question can be asked of an audit."""
    needs: str = "any audit will do."
    """What an audit needs for that, and the command that makes one."""

    @property
    def stem(self) -> str:
        """How its files begin."""
        return self.name.replace("-", "_")

    def run(self, audit: Audit) -> dict[str, Any]:
        """The answer for one audit, with what made it; between equal runs `date` and `commit` alone differ."""
        return {
            "study_version": STUDY_VERSION,
            "study": self.name,
            "audit": audit.name,
            "source": audit.source.as_posix(),
            "audit_digest": audit.digest,
            "command": f"walkback lab study {self.name} {audit.source.as_posix()}",
            **_unfinished(audit),
            **as_json(self.answer(audit)),
            **stamp(),
        }

    def save(self, results: Path, result: Result) -> Path:
        """Write an answer to the directory of results."""
        results.mkdir(parents=True, exist_ok=True)
        return write_whole(self.file(results, result["audit"]), json_text(result))

    def file(self, results: Path, audit: str) -> Path:
        """Where the answer for an audit is kept."""
        return results / f"{self.stem}_{audit}.json"

    def page(self, results: Path) -> Page:
        """All answers on record, one section each."""
        parts: list[str | Grid | Heading] = [self.question, HOW_TO_READ]
        for path in self.files(results):
            result = load_result(path)
            parts += [Heading(result["audit"]), *_about(results, result["audit"])]
            parts += [f"From {result['source']}, by: {todays(result['command'])}"]
            parts += [*still_missing(result), *self.paragraphs(result)]
        return Page(self.title, parts)

    def files(self, results: Path) -> list[Path]:
        """The answers on record."""
        return sorted(results.glob(f"{self.stem}_*.json"))

    def outdated(self, results: Path) -> list[Path]:
        """The audits behind answers on record that another version gave, and that have to be asked again."""
        found = [what_is(path) for path in self.files(results)]
        answers = [each.content for each in found if each.kind is Kind.STUDY]
        named = [answer.get("source") for answer in answers if answer["study_version"] != STUDY_VERSION]
        return [Path(source) for source in named if isinstance(source, str)]


def _about(results: Path, audit: str) -> list[str]:
    """What an audit is of, in a sentence; nothing where its file is not here, as of one that was only recorded."""
    path = results / f"audit_{audit}.json"
    grid = read_json(path).get("config") if path.exists() else None
    if not grid:
        return []
    settings = grid.get("settings") or {}
    changed = [f"{name}={value}" for name, value in (settings.get("architecture_options") or {}).items()]
    changed += [f"{name}={value}" for name, value in settings.items() if name != "architecture_options"]
    where = " ".join([f"{grid['architecture']} on {grid['data']}", *([f"({', '.join(changed)})"] if changed else [])])
    mixed = any(row["settings"] for row in grid["rows"])
    seeds = f"{'seed' if len(grid['seeds']) == 1 else 'seeds'} {', '.join(map(str, grid['seeds']))}"
    words = f"{where}, {grid['epochs']} epochs, {seeds}" + (", unless the row says otherwise" if mixed else "")
    return [f"{words}."]


def _unfinished(audit: Audit) -> dict[str, list[str]]:
    """The networks of an audit that an answer is not of, because their runs are not finished."""
    missing = [f"{row['label']} {row['seed']}" for row in audit.rows if row["error"]]
    return {"unfinished": missing} if missing else {}


def still_missing(result: Result) -> list[str]:
    """A sentence about what an answer is not of; none where it is of the whole audit."""
    missing = result.get("unfinished", [])
    if not missing:
        return []
    named = ", ".join(missing[:MANY]) + (f" and {len(missing) - MANY} more" if len(missing) > MANY else "")
    return [f"Not all of this audit is trained yet. Missing: {named}. What follows is of the others alone."]


def load_result(path: Path) -> dict[str, Any]:
    """An answer from its file."""
    again = "Remove it, and make it again from its audit."
    result: dict[str, Any] = require(path, Kind.STUDY, again)
    if result["study_version"] != STUDY_VERSION:
        raise RecordError(f"{path} is a study of version {result['study_version']!r}, not {STUDY_VERSION}. {again}")
    return result


def shown(value: Any, write: Callable[[float], str] = written) -> str:
    """A number from JSON as the tables write it; a dash where there is none."""
    return "–" if value is None else write(float(value))


def firing(report: DiagnosticReport) -> str:
    """The letters of the diagnostics that fire: `abd`."""
    return "".join(reading.letter for reading in report.readings if reading.state is State.FIRE)


def unmeasured(report: DiagnosticReport) -> str:
    """The letters of the panel's diagnostics that were not measured, which is not to say that they pass."""
    missing = [reading.letter for reading in report.readings if reading.state is State.NOT_MEASURED]
    panel = panel_on_record(report.panel)
    return "".join(letter for letter in missing if panel.member(letter) is not None)


def fired_words(fired: str, missing: str) -> str:
    """What fired in a cell, and what was not asked: `(ab), no (d)`."""
    return (f"({fired})" if fired else "none") + (f", no ({missing})" if missing else "")


def side_by_side(values: Sequence[Any], write: Callable[[float], str] = written) -> str:
    """The figures of several seeds in one cell."""
    return ", ".join(shown(value, write) for value in values)
