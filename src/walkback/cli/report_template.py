"""The reporting template on the command line: filled in from a run or a report, or left empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from walkback.protocol.records import DiagnosticReport


class Target(NamedTuple):
    """What a report is about, and the record of the run behind it if there is one."""

    report: DiagnosticReport
    run: dict[str, Any] | None


def filled_template(template: str, targets: list[str], runs: str | None) -> str:
    """The form for one target, or an empty one for none."""
    from walkback.errors import InputError

    if len(targets) > 1:
        raise InputError(f"--template is the form of one network, and {len(targets)} targets are given. Give one.")
    return _filled(template, load_target(targets[0], runs) if targets else None)


def _filled(template: str, target: Target | None) -> str:
    from walkback.errors import UnknownName
    from walkback.present.template import TEMPLATES, form_of
    from walkback.registry import did_you_mean

    if template not in TEMPLATES:
        raise UnknownName(f"there is no template {template!r}. {did_you_mean(template, TEMPLATES)}")
    return TEMPLATES[template](form_of(target.report, target.run) if target else form_of(None))


def load_target(target: str, runs: str | None) -> Target:
    """A run by its id, or what a JSON file holds: the result of a run, or a report."""
    from walkback.experiments.store import open_store
    from walkback.protocol.records import DiagnosticReport
    from walkback.protocol.schema import read_json

    path = Path(target)
    if not path.is_file():
        if path.suffix == ".json" or len(path.parts) > 1:
            read_json(path)  # says what is wrong with it
        store = open_store(runs)
        return _of_run(store, store.find(target).result(), f"run {target}")
    data = read_json(path)
    if isinstance(data, dict) and "result_version" in data:
        # Beside an archived result lie those of other runs, its matched baseline among them.
        return _of_run(open_store(runs, path.parent), data, str(path))
    return Target(DiagnosticReport.from_dict(data, str(path)), None)


def _of_run(store: Any, result: dict[str, Any], source: str) -> Target:
    from walkback.errors import RecordError
    from walkback.experiments.baselines import baseline_result, joined_report

    try:
        return Target(joined_report(result, baseline_result(store, result)), result)
    except (KeyError, TypeError) as error:
        raise RecordError(f"{source} is not the result of a run: {error} is missing or malformed.") from None
