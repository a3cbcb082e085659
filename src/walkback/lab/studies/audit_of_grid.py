"""Which methods can be trusted? Every run of a grid, judged with its matched frozen baseline.

The audit is one JSON file: `reports` (DiagnosticReport dictionaries), `runs` (one entry for each method and
seed, in the grid's order: the run's id and commit, its baseline's where it has one, and its error if it failed),
`summaries` (what the seeds of each method agree on) and the grid's `config`. Traces are in the run files, by
id. The same grid gives the same audit but for `seconds`, `date` and `commit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.errors import InputError, RecordError
from walkback.lab.runs.baselines import joined_report
from walkback.lab.runs.shapes import ReportShape, RowShape, Shape, require_shape
from walkback.lab.runs.stamp import stamp
from walkback.protocol.json_codec import json_text
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import read_json, write_whole

if TYPE_CHECKING:
    from walkback.lab.grids.grid import Cell, GridConfig
    from walkback.lab.runs.store import RunStore, StoredRun

AUDIT_VERSION = 1
NOT_FINISHED = "not finished"


def audit_file(results: Path, name: str) -> Path:
    """Where an audit is kept."""
    return results / f"audit_{name}.json"


def audit_of(name: str, grid: GridConfig, store: RunStore, errors: Mapping[str, str]) -> dict[str, Any]:
    """The audit of a grid whose runs are finished, but for those in `errors`, which become rows with theirs."""
    found = [_audited(cell, store, errors) for cell in grid.cells()]
    reports = [report for _, report in found if report is not None]
    rows = [row for row, _ in found]
    return {
        "audit_version": AUDIT_VERSION,
        "name": name,
        "config": grid.to_dict(),
        "reports": [report.to_dict() for report in reports],
        "runs": rows,
        "summaries": [summary.to_dict() for summary in _summaries(reports)],
        "seconds": round(sum(row.pop("seconds") for row in rows), 1),
        **stamp(),
    }


def _audited(cell: Cell, store: RunStore, errors: Mapping[str, str]) -> tuple[dict[str, Any], DiagnosticReport | None]:
    run = store.run(cell.config)
    row: dict[str, Any] = {
        "label": cell.label,
        "seed": cell.config.seed,
        "method": cell.config.method,
        "id": run.run_id,
        "command": cell.config.command,
        "error": _error(run, errors),
        "seconds": _seconds(run),
        "commit": _commit(run),
    }
    frozen = None
    if cell.baseline is not None:
        baseline = store.run(cell.baseline)
        row |= {
            "baseline": baseline.run_id,
            "baseline_command": cell.baseline.command,
            "baseline_error": _error(baseline, errors),
            "baseline_commit": _commit(baseline),
        }
        row["seconds"] += _seconds(baseline)
        frozen = baseline.result() if baseline.finished else None
    if row["error"]:
        return row, None
    result = run.result()
    if result["report"] is None:
        return row | {"error": result["unmeasured"]}, None
    report = joined_report(result, frozen)
    return row, report.model_copy(update={"method_name": cell.label})


def _error(run: StoredRun, errors: Mapping[str, str]) -> str:
    return "" if run.finished else errors.get(run.run_id, NOT_FINISHED)


def _commit(run: StoredRun) -> str:
    """Of the code that trained the run, several where it was resumed by another; the audit's own is the judge's."""
    return str(run.result()["commit"]) if run.finished else ""


def _seconds(run: StoredRun) -> float:
    return sum(run.result()["seconds"].values()) if run.finished else 0.0


def _summaries(reports: Iterable[DiagnosticReport]) -> Iterable[Any]:
    from walkback.protocol.seeds import combine

    groups: dict[str, list[DiagnosticReport]] = {}
    for report in reports:
        groups.setdefault(report.method_name, []).append(report)
    return map(combine, groups.values())


def refuse_to_lose_rows(path: Path, grid: GridConfig) -> None:
    """Raise where an audit on record has runs that the grid has not, and would be replaced by less or by others."""
    there = {row["id"]: f"{row['label']} {row['seed']}" for row in _on_record(path, "runs", RowShape)}
    here = {cell.config.run_id for cell in grid.cells()}
    _refuse(path, "runs that this grid has not", [name for run_id, name in there.items() if run_id not in here])


def refuse_to_lose_reports(path: Path, audit: Mapping[str, Any]) -> None:
    """Raise where an audit on record has reports, or their (d), that this one has not: runs or baselines are gone."""
    there = _with_margin(_on_record(path, "reports", ReportShape))
    here = _with_margin(audit["reports"])
    why = {f"{row['label']} {row['seed']}": row["error"] for row in audit["runs"]}
    gone = [name for name in there if name not in here]
    _refuse(path, "reports of runs that are not here", [f"{name} ({why.get(name) or NOT_FINISHED})" for name in gone])
    _refuse(path, "(d) by baselines that are not here", [name for name in there if there[name] and not here[name]])


def _with_margin(reports: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """The method and seed of each report, and whether it has its (d)."""
    return {f"{r['method_name']} {r['seed']}": r["frozen_baseline_acc"] is not None for r in reports}


def _on_record(path: Path, name: str, shape: type[Shape]) -> list[dict[str, Any]]:
    """A list of the audit in a file, empty where there is none."""
    if not path.exists():
        return []
    data = read_json(path)
    found = data.get(name) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise RecordError(
            f"{path} is not an audit: it has no list of {name}. Give this one another --name, or move it away."
        )
    return [require_shape(shape, entry, path) for entry in found]


def _refuse(path: Path, what: str, lost: Sequence[str]) -> None:
    if lost:
        named = ", ".join(lost[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise InputError(f"{path} holds {what}: {named}{more}. Give this one another --name, or move that file.")


def write_audit(path: Path, audit: Mapping[str, Any]) -> None:
    """Write the audit whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json_text(audit))
