"""What a study reads: an audit's reports, and the traces of the runs behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.lab.runs.classes import with_classes
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.functional_record import NUDGE, RHO, mean_over_deep_blocks, training_loss
from walkback.lab.runs.ids import checked_id, held_to_id
from walkback.lab.runs.shapes import AuditShape, CourseShape, require_line, require_result, require_shape
from walkback.lab.runs.verbs import todays
from walkback.lab.studies.audit_of_grid import AUDIT_VERSION
from walkback.protocol.again import warn_of_stored
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.schema import audit_digest, content_digest, file_name, naming_source, read_json
from walkback.watch.replay import Replayed, replay
from walkback.watch.what_is import Kind, what_is


@dataclass(frozen=True)
class TracedRun:
    """One run, epoch by epoch from the untrained network on, and its frozen baseline's accuracies."""

    label: str
    seed: int
    run_id: str
    records: tuple[EpochRecord, ...]
    frozen_accuracies: tuple[float, ...]
    test_samples: int
    depth: Mapping[str, Any] | None = None
    """The functional tests of depth, as the run's file holds them."""
    credit_tests: Mapping[str, float | None] = field(default_factory=dict)
    """Perturbation ρ and nudge behind the first block, and the training-loss decrease; None where not on record."""

    @property
    def epochs(self) -> int:
        """The last epoch that was trained."""
        return self.records[-1].epoch

    def report(self, epoch: int, convention: float = 1.0) -> DiagnosticReport:
        """What the protocol says of one epoch; (d) against the baseline at the same epoch.

        `convention` multiplies ‖g‖: a loss averaged over ten times the samples makes it a tenth.
        """
        measured = measurements(self.records[epoch], convention)
        scores: dict[str, Any] = {"headline_samples": self.test_samples}
        if epoch < len(self.frozen_accuracies):
            scores |= {"frozen_baseline_acc": self.frozen_accuracies[epoch]}
            scores |= {"frozen_baseline_samples": self.test_samples}
        return judge(measured.model_copy(update=scores), method_name=self.label, seed=self.seed)


def measurements(record: EpochRecord, convention: float = 1.0) -> Measurements:
    """The figures of one line of a trace."""
    measured = record.measurements()
    if convention == 1.0 or measured.bp_grad_norms is None:
        return measured
    return measured.model_copy(update={"bp_grad_norms": tuple(g * convention for g in measured.bp_grad_norms)})


def chance_of(report: DiagnosticReport) -> float | None:
    """The accuracy of guessing; None where nobody knows how many classes there are."""
    return 1 / report.classes if report.classes else None


def mean_alignment(sites: Sequence[float] | None) -> float | None:
    """Γ as the field reports it: one number, the mean over all sites, site 0 included."""
    return sum(sites) / len(sites) if sites else None


@dataclass(frozen=True)
class Audit:
    """An audit by its name, with the directory of the runs that it refers to."""

    name: str
    source: Path
    reports: tuple[DiagnosticReport, ...]
    rows: tuple[Mapping[str, Any], ...] = ()
    """The `runs` of its file; a recorded audit has none, and so no traces."""
    digest: str = ""
    """Of what it says: a study's answer is to this and to no other."""

    @property
    def chance(self) -> float | None:
        """The accuracy of guessing, where it is known and the same for all networks."""
        found = {chance_of(report) for report in self.reports}
        return found.pop() if len(found) == 1 else None

    @property
    def labels(self) -> list[str]:
        """The methods, in the audit's order."""
        return list(dict.fromkeys(report.method_name for report in self.reports))

    def report_of(self, run: TracedRun) -> DiagnosticReport:
        """What the audit says of a run."""
        found = [r for r in self.reports if (r.method_name, r.seed) == (run.label, run.seed)]
        if not found:
            raise RecordError(
                f"{self.source} has a finished run of {run.label}, seed {run.seed}, and no report on it. Make it again "
                "with: walkback lab audit"
            )
        return found[0]

    def by_method(self) -> dict[str, list[DiagnosticReport]]:
        """The reports of each method, in the audit's order."""
        groups: dict[str, list[DiagnosticReport]] = {}
        for report in self.reports:
            groups.setdefault(report.method_name, []).append(report)
        return groups

    @cached_property
    def traces(self) -> tuple[TracedRun, ...]:
        """The trace of every run that is finished; an audit without any is refused."""
        if not self.rows:
            raise InputError(
                f"{self.source} holds reports without the runs behind them, and this study reads traces. "
                "Give an audit that `walkback lab audit` made."
            )
        folder = self.source.parent / "runs"
        return tuple(_traced(row, folder) for row in self.rows if not row["error"])


def load_audit(path: Path) -> Audit:
    """An audit of this project, or one that another program recorded."""
    found = what_is(path)
    data = found.content
    if data is None:
        raise RecordError(f"{path} is {found.told}; expected an audit as JSON. Make one with: walkback lab audit")
    if found.kind is not Kind.AUDIT:
        reports = tuple(_with_seed(entry) for entry in replay(path))
        name = f"recorded_{path.stem.removesuffix('_audit_3seed')}"
        return Audit(name, path, reports, digest=content_digest(data))
    if data["audit_version"] != AUDIT_VERSION:
        raise RecordError(
            f"{path} is an audit of version {data['audit_version']!r}, and this walkback reads {AUDIT_VERSION}. "
            "Make it again with: walkback lab audit"
        )
    require_shape(AuditShape, data, path)
    with naming_source(path):
        reports = tuple(DiagnosticReport.from_dict(report, str(path)) for report in data["reports"])
        warn_of_stored(reports, path)
        named = _data_sets(data.get("config") or {})
        reports = tuple(with_classes(report, named.get(report.method_name)) for report in reports)
        rows = tuple(data["runs"])
        name = file_name(data["name"], f"the name of the audit in {path}")
        return Audit(name, path, reports, rows, audit_digest(data))


def _data_sets(grid: Mapping[str, Any]) -> dict[str, str]:
    """The data set of each method of a grid."""
    rows = [(row["label"], row["settings"]) for row in grid.get("rows", ())]
    return {label: str(settings.get("data", grid.get("data"))) for label, settings in rows}


def _with_seed(entry: Replayed) -> DiagnosticReport:
    """A recorded report may have its seed in its name alone: `dfa_s42`."""
    named = re.search(r"_s(\d+)$", entry.name)
    seed = int(named[1]) if entry.report.seed is None and named else entry.report.seed
    return entry.report.model_copy(update={"seed": seed})


def audits_in(results: Path) -> list[Path]:
    """Every audit on record; none is refused."""
    found = sorted(results.glob("audit_*.json"))
    if not found:
        raise InputError(f"there is no audit in {results}. Make one: walkback lab audit --preset resmlp_d256")
    return found


def _traced(row: Mapping[str, Any], folder: Path) -> TracedRun:
    result = _run_file(folder, row["id"], row["command"])
    has_baseline = row.get("baseline") and not row.get("baseline_error")
    frozen = _run_file(folder, row["baseline"], row.get("baseline_command", "")) if has_baseline else None
    return TracedRun(
        row["label"],
        row["seed"],
        row["id"],
        _records(result["trace"], folder / f"{row['id']}.json"),
        tuple(record.accuracy for record in _records(frozen["trace"], folder)) if frozen else (),
        result["test_samples"],
        result.get("depth"),
        _credit_tests(result),
    )


def _credit_tests(result: Mapping[str, Any]) -> dict[str, float | None]:
    loss = training_loss(result["trace"])
    return {
        "rho": mean_over_deep_blocks(result, RHO),
        "nudge": mean_over_deep_blocks(result, NUDGE),
        "loss_decrease": None if loss is None else loss.decrease,
    }


def _run_file(folder: Path, run_id: str, command: str) -> dict[str, Any]:
    path = folder / f"{checked_id(run_id, 'the audit')}.json"
    if not path.exists():
        raise RecordError(f"the audit refers to {path}, which is not there. Make the run again: {todays(command)}")
    result = held_to_id(read_json(path), run_id, path, f"make the run again: {todays(command)}")
    return require_result(result, path, CourseShape)


def _records(trace: Iterable[Mapping[str, Any]], path: Path) -> tuple[EpochRecord, ...]:
    return tuple(require_line(entry, path) for entry in trace)
