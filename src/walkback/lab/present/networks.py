"""Runs, reports, traces, audits and logs as networks to show: what `walkback report` and `walkback figure` draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.lab.runs.baselines import joined_report
from walkback.lab.runs.ids import checked_id, held_to_id, is_id
from walkback.lab.runs.options import SECTIONS
from walkback.lab.runs.shapes import require_line, require_result
from walkback.lab.runs.store import RESULT_VERSION, RunStore, StoredRun
from walkback.lab.runs.verbs import todays, with_todays_commands
from walkback.lab.studies.audited import load_audit
from walkback.present.method_names import rows_of
from walkback.present.network import Network, by_method
from walkback.present.outline import Facts
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import naming_source, read_json
from walkback.watch.audits import replayed_report
from walkback.watch.replay import replay, traced
from walkback.watch.summary import trail_of
from walkback.watch.trace_line import TraceLine
from walkback.watch.trail import Trail
from walkback.watch.what_is import Found, Kind, what_is


def networks_in(targets: Iterable[str], store: RunStore) -> list[Network]:
    """Every network behind the targets, the seeds of a method together; none at all is refused.

    A run that is another's frozen baseline is shown as that, and has no row of its own.
    """
    found: list[Network] = []
    for target in targets:
        with naming_source(target):
            found += _networks(target, store)
    if not found:
        raise InputError("there is no network to show. Give reports, audits, traces or runs.")
    baselines = {network.baseline_id for network in found} - {""}
    own = [network for network in found if network.run_id not in baselines]
    return [network for group in by_method(_told_apart(own)).values() for network in group]


def _networks(target: str, store: RunStore) -> Iterator[Network]:
    if not target:
        raise InputError("a target is empty. Give a report, an audit, a trace or a run id.")
    path = Path(target)
    if not path.exists():
        yield _stored(_found(target, store), store)
    else:
        yield from _in_file(what_is(path), store)


def _found(target: str, store: RunStore) -> StoredRun:
    from walkback.errors import RunError

    if "/" in target or "." in target:
        raise InputError(f"cannot read {target}: there is no such file. Give a report, an audit, a trace or a run id.")
    try:
        return store.find(target)
    except RunError as error:
        raise InputError(f"{target!r} is not a file; read as a run id: {error}") from None


def _in_file(found: Found, store: RunStore) -> Iterator[Network]:
    path = found.path
    if found.kind is Kind.RUN:
        yield _stored(StoredRun(path.resolve()), RunStore(path.resolve().parent, store.archive))
    elif found.kind is Kind.TRACE:
        yield from _from_trace(path)
    elif found.kind is Kind.RESULT:
        yield _finished(found.content, path)
    elif found.kind is Kind.AUDIT:
        rows = rows_of(found.content)
        yield from (replace(each, options=rows.get(each.report.method_name)) for each in _audited(path))
    elif found.kind is Kind.REPORT:
        yield Network(DiagnosticReport.from_dict(found.content, str(path)))
    elif found.kind is Kind.REPLAYED:
        yield from (Network(replayed_report(entry, str(path))) for entry in found.content)
    else:
        yield from _recorded(found)


def _finished(data: dict[str, Any], path: Path) -> Network:
    if data["result_version"] != RESULT_VERSION:
        raise RecordError(
            f"{path} is a run's result of version {data['result_version']!r}, and this walkback reads "
            f"{RESULT_VERSION}. Show it with the walkback that wrote it."
        )
    result = require_result(held_to_id(data, path.stem if is_id(path.stem) else None, path), path)
    return _from_result(result, _beside(path, result), str(path))


def _recorded(found: Found) -> Iterator[Network]:
    """Records of other programs; their reports carry the seed that may stand in the name alone."""
    path = found.path
    if found.content is not None:
        return (Network(report) for report in load_audit(path).reports)
    try:
        return (Network(entry.report) for entry in replay(path))
    except InputError as error:
        if "--map" not in str(error):
            raise
        # Columns are named to replay, whose JSON is a target like any other.
        raise InputError(
            f"{path} is a log of another program, and `report` takes no --map. Run `walkback replay {path} --map … "
            f"--json out.json`, then `walkback report out.json`.{_columns(str(error))}"
        ) from None


def _columns(message: str) -> str:
    """The columns of the log, as the refusal has them."""
    _, named, columns = message.partition("Its columns:")
    return f" {named}{columns}" if named else ""


def _beside(path: Path, result: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of the matched baseline, if it lies in the same directory."""
    if result["baseline"] is None:
        return None
    named = checked_id(result["baseline"]["id"], path)
    other = path.parent / f"{named}.json"
    return require_result(held_to_id(read_json(other), named, other), other) if other.is_file() else None


def _stored(run: StoredRun, store: RunStore) -> Network:
    if not run.finished:
        if not run.trace():  # which brings the trace here from wherever the store is
            raise RecordError(f"run {run.run_id} holds no measurements yet.")
        return next(_from_trace(run.trace_file))
    result = run.result()
    baseline = store.at(result["baseline"]["id"]) if result["baseline"] else None
    return _from_result(result, baseline.result() if baseline and baseline.finished else None, run.run_id)


def _audited(path: Path) -> Iterator[Network]:
    audit = load_audit(path)
    rows = {(row["label"], row["seed"]): row for row in audit.rows}
    folder = path.parent / "runs"
    for report in audit.reports:
        row = rows.get((report.method_name, report.seed))
        run = folder / f"{checked_id(row['id'], path)}.json" if row else None
        if row is None or run is None or not run.is_file():
            yield Network(report)
            continue
        result = require_result(held_to_id(read_json(run), row["id"], run), run)
        shown = _from_result(result, _beside(run, result), str(run))
        yield replace(shown, report=report)


def _from_result(result: Mapping[str, Any], baseline: Mapping[str, Any] | None, source: str) -> Network:
    with naming_source(source):
        report = joined_report(result, baseline)
        label = _words(result["name"], result["config"]["seed"])
        frozen = [require_line(entry, source).accuracy for entry in baseline["trace"]] if baseline else []
        moments = _trail(result["trace"], frozen)
        about = [("Configuration", _configuration(result["config"])), ("Made by", _made_by(result, baseline))]
        ids = result["id"], result["baseline"]["id"] if result["baseline"] else ""
    frozen_at: list[float | None] = [*frozen[: len(moments)], *[None] * (len(moments) - len(frozen))]
    named = report.model_copy(update={"method_name": label})
    return Network(named, moments, frozen_at if frozen else (), about, *ids, with_todays_commands(result))


def _trail(trace: Iterable[Mapping[str, Any]], frozen: Sequence[float]) -> Trail:
    lines = []
    for number, entry in enumerate(trace):
        baseline = {"frozen_baseline_acc": frozen[number]} if number < len(frozen) else {}
        lines.append(TraceLine.model_validate({**entry, **baseline}))
    return trail_of(lines)


def _from_trace(path: Path) -> Iterator[Network]:
    for entry, trail in traced(path):
        yield Network(entry.report, trail)


def _configuration(config: Mapping[str, Any]) -> Facts:
    rows = {name: value for name, value in config.items() if name not in SECTIONS}
    for section, prefix in SECTIONS.items():
        rows |= {f"{prefix}.{name}": value for name, value in config[section].items()}
    return [(name, str(value)) for name, value in rows.items()]


def _made_by(result: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> Facts:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    rows = [("command", todays(result["command"])), ("run", result["id"]), ("versions", versions)]
    rows += [("commit", str(result["commit"])), ("date", str(result["date"]))]
    return rows if baseline is None else [*rows, ("commit of its frozen baseline", str(baseline["commit"]))]


def _words(name: str, seed: int) -> str:
    return name.replace(f"-s{seed}-", "-")


def _told_apart(networks: Sequence[Network]) -> list[Network]:
    """Runs named by what they do not share: `resmlp-cifar10-bp-30ep` beside another is `bp`.

    Words that all names share at their beginning and end go; a name never goes whole.
    """
    names = [network.report.method_name.split("-") for network in networks]
    if any(not network.about or len(name) < 3 for network, name in zip(networks, names, strict=True)):
        return list(networks)
    short = ["-".join(_unshared(name, names)) for name in names]
    return [
        replace(network, report=network.report.model_copy(update={"method_name": name}))
        for network, name in zip(networks, short, strict=True)
    ]


def _unshared(name: Sequence[str], names: Sequence[Sequence[str]]) -> Sequence[str]:
    # Architecture and data lead, the epochs end; the method, third, always stays.
    head = 2 if len({tuple(other[:2]) for other in names}) == 1 else 0
    tail = len(name) - 1 if len({other[-1] for other in names}) == 1 else len(name)
    return name[head:tail]
