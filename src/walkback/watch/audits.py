"""Networks recorded at one moment: walkback's own reports, and audits that other programs wrote as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from walkback.errors import InputError, RecordError
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.schema import explain
from walkback.watch.what_is import Found, Kind, kind_of

ABOUT = ("method_name", "notes", "seed", "warnings", "provenance")

Network = tuple[str, dict[str, Any], Measurements]


def networks(found: Found) -> Iterator[Network]:
    """(name, what the record says about the network, its measurements) for each network in a file."""
    read = _READERS.get(found.kind)
    if read is None:
        raise RecordError(
            f"{found.path} is {found.told}, not a record that walkback knows. Expected a walkback report, what "
            "`walkback replay --json` wrote, an audit with 'reports', or a list of rows with 'h_norms' and 'g_norms'. "
            "The columns of another program's log are named in `walkback replay LOG --map …`."
        )
    count = 0
    for network in read(found.content, found.path):
        yield network
        count += 1
    if count == 0:
        raise RecordError(f"{found.path} holds no networks; expected at least one report.")


def _own_report(data: dict[str, Any], path: Path) -> Iterator[Network]:
    report = DiagnosticReport.from_dict(data, str(path))
    yield _own(report, _name(report.method_name, report.seed) or path.stem)


def _own(report: DiagnosticReport, name: str) -> Network:
    about = {key: getattr(report, key) for key in ABOUT}
    said = report.stored.verdict if report.stored is not None else report.verdict
    return name, about | {"verdict": said, "stored": report.stored, "panel": report.panel}, report.measurements


_BESIDE = ("name", "source", "recorded_verdict", "course")
"""What `walkback replay --json` writes of a network beside its report."""


def replayed_report(entry: dict[str, Any], source: str) -> DiagnosticReport:
    """The report in one entry of what `walkback replay --json` wrote, judged again as any report is."""
    return DiagnosticReport.from_dict({key: value for key, value in entry.items() if key not in _BESIDE}, source)


def _replayed(data: list[dict[str, Any]], path: Path) -> Iterator[Network]:
    for entry in data:
        yield _own(replayed_report(entry, str(path)), str(entry.get("name") or path.stem))


def _audit(data: dict[str, Any], path: Path) -> Iterator[Network]:
    reports = data.get("reports")
    if not isinstance(reports, dict | list):
        raise RecordError(f"{path} is an audit without its reports. Make it again, or give another.")
    named = reports.items() if isinstance(reports, dict) else ((None, entry) for entry in reports)
    for number, (key, entry) in enumerate(named):
        if kind_of(entry) is Kind.REPORT:
            for name, about, measured in _own_report(entry, path):
                yield key or name, about, measured
        else:
            about, measured = _published(entry, f"{path}, report {key or number}")
            yield (
                key or _name(about.get("method_name", ""), about.get("seed")) or str(number),
                about,
                measured,
            )


_PUBLISHED_FIELDS = (
    "residual_norms", "bp_grad_norms", "stability_layer", "cross_batch_stability", "headline_acc",
    "frozen_baseline_acc",
)  # fmt: skip


def _published(entry: Any, where: str) -> tuple[dict[str, Any], Measurements]:
    """A report of the published audit: the same names, without a schema version."""
    if not isinstance(entry, dict) or not any(field in entry for field in _PUBLISHED_FIELDS):
        raise RecordError(f"{where} holds no measurements; expected fields such as {', '.join(_PUBLISHED_FIELDS[:2])}.")
    return _about(entry, where), _measurements({field: entry.get(field) for field in _PUBLISHED_FIELDS}, where)


def _rows(data: list[dict[str, Any]], path: Path) -> Iterator[Network]:
    for number, row in enumerate(data):
        fields = {
            "residual_norms": row["h_norms"],
            "bp_grad_norms": row.get("g_norms"),
            "headline_acc": row.get("acc"),
        }
        said = {"method_name": row.get("method", ""), "seed": row.get("seed"), "verdict": row.get("verdict")}
        about = _about(said, f"{path}, row {number}")
        name = _name(about.get("method_name", ""), about.get("seed")) or str(number)
        yield name, about, _measurements(fields, f"{path}, row {number}")


class _About(BaseModel):
    """What a record of another program may say about a network."""

    method_name: str | None = None
    notes: str | None = None
    seed: int | None = None
    warnings: tuple[str, ...] | None = None
    provenance: dict[str, str] | None = None
    verdict: str | None = None


def _about(entry: dict[str, Any], where: str) -> dict[str, Any]:
    try:
        said = _About.model_validate(entry).model_dump(exclude_none=True)
    except ValidationError as error:
        raise RecordError(f"{where}: {explain(error)}.") from None
    return said


def _measurements(fields: dict[str, Any], where: str) -> Measurements:
    try:
        return Measurements(**fields)
    except InputError as error:
        raise RecordError(f"{where}: {error}.") from None


def _name(method: str, seed: int | None) -> str:
    return f"{method}_s{seed}" if method and seed is not None else method


_READERS: dict[Kind, Callable[[Any, Path], Iterator[Network]]] = {
    Kind.REPORT: _own_report,
    Kind.REPLAYED: _replayed,
    Kind.AUDIT: _audit,
    Kind.PUBLISHED: _audit,
    Kind.ROWS: _rows,
}
