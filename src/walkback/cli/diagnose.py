"""`walkback diagnose TARGET`: measure and judge one network."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkback.cli.options import FullOption, RequireAllOption, RunsOption, SarifOption
from walkback.cli.output import require_writable
from walkback.cli.thresholds import PanelOption, with_thresholds
from walkback.errors import InputError
from walkback.extras import naming_extras, optional
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from walkback.protocol.records import DiagnosticReport


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("diagnose")(with_thresholds(diagnose))


def diagnose(
    target: Annotated[
        str,
        typer.Argument(
            help="A run id, a run's directory, a checkpoint, or file.py:function or package.module:function that "
            "returns (model, batches), or a mapping of walkback.diagnose's arguments."
        ),
    ],
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Save the report as JSON to this file.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Save the report as an HTML page.")
    ] = None,
    sarif_file: SarifOption = None,
    blocks: Annotated[
        str | None,
        typer.Option(
            help="Module names or globs, separated by commas: 1 for a report's module 1. !NAME excludes one; "
            "NAME#2 is its second call."
        ),
    ] = None,
    stem: Annotated[str | None, typer.Option(help="Modules before the first block, named as in --blocks.")] = None,
    head: Annotated[str | None, typer.Option(help="Modules after the last block, named as in --blocks.")] = None,
    logits: Annotated[str | None, typer.Option(help="Index or key of the logits in the model's output.")] = None,
    forward_kwargs: Annotated[
        str | None, typer.Option(help="Keyword arguments for every forward pass, as JSON: '{\"causal\": true}'.")
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(help="How token sequences are reduced to one vector: class_token, token_norms or flatten."),
    ] = None,
    require_all: RequireAllOption = False,
    full: FullOption = False,
    runs: RunsOption = None,
    panel: PanelOption = None,
    thresholds: DiagnosticThresholds | None = None,
) -> int:
    """Measure one network and say whether its result can be trusted.

    To give a frozen baseline for (d), let the function return a mapping: "model", "eval_batches" and
    "frozen_baseline_acc", which is an accuracy in [0, 1] or what walkback.frozen_baseline returned. A run of the lab
    finds its own.
    """
    from walkback.lab.cli.stored import diagnose_stored, is_stored
    from walkback.present.text import print_report
    from walkback.protocol.judge import under
    from walkback.protocol.panels import panel_named
    from walkback.protocol.verdict import exit_status

    require_writable([json_file, html_file, sarif_file], [target, *_store_of(target, runs)])
    panel_named(panel)  # refused before anything is measured
    if not target:
        raise InputError("TARGET is ''; expected a run id, a run's directory, a checkpoint, or file.py:function.")
    how = {
        "blocks": blocks.split(",") if blocks is not None else None,
        "stem": stem,
        "head": head,
        "logits": _index_or_key(logits),
        "forward_kwargs": _from_json(forward_kwargs),
        "tokens": tokens,
    }
    measuring = {name: value for name, value in how.items() if value is not None}
    if html_file is not None:
        optional("jinja2")  # a page that cannot be made is no reason to measure
    if is_stored(target):
        with naming_extras(whole="lab"):
            report = diagnose_stored(target, runs, thresholds, require_all, measuring)
    else:
        report = _diagnose_function(target, thresholds, require_all, measuring)
    report = report if panel is None else under(report, panel, require_all)
    # Written first: whoever was to read what is printed may have gone.
    if json_file is not None:
        report.save(json_file)
    if html_file is not None:
        report.to_html(html_file)
    if sarif_file is not None:
        _write_sarif(report, target, sarif_file)
    print_report(report, full=full)
    return exit_status([report.outcome])


def _write_sarif(report: DiagnosticReport, target: str, path: Path) -> None:
    from walkback.cli.target import place_of
    from walkback.present.sarif import Judged, as_sarif
    from walkback.protocol.schema import write_whole

    file, line = place_of(target)
    write_whole(path, as_sarif([Judged(report.method_name or target, report, file, line)]))


def _index_or_key(logits: str | None) -> int | str | None:
    """A number counts the parts of an output; anything else is a key."""
    return int(logits) if logits is not None and re.fullmatch(r"-?[0-9]{1,9}", logits) else logits


def _from_json(text: str | None) -> dict[str, Any] | None:
    from walkback.protocol.schema import parse_json, shortened

    if text is None:
        return None
    try:
        arguments = parse_json(text)
    except ValueError as error:
        raise InputError(f"--forward-kwargs is {shortened(text)}, which is not valid JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise InputError(
            f"--forward-kwargs is {shortened(text)}; expected a JSON object such as '{{\"causal\": true}}'."
        )
    return arguments


def _store_of(target: str, runs: str | None) -> list[Path]:
    """Where a run that is named by its id is read from."""
    from walkback.lab.cli.stored import is_stored
    from walkback.lab.runs.store import open_store

    return open_store(runs).folders if is_stored(target) and not Path(target).exists() else []


def _diagnose_function(
    target: str, thresholds: DiagnosticThresholds | None, require_all: bool, measuring: dict[str, Any]
) -> DiagnosticReport:
    """Call the user's function and diagnose what it returns."""
    from walkback.cli.target import IN_JAX, call_target, run_theirs
    from walkback.registry import did_you_mean

    arguments = call_target(target)
    measure, further = _jax_diagnose(target, measuring) if arguments.keys() >= IN_JAX else _torch_diagnose()
    arguments |= measuring
    given = {"require_all": require_all or None, "thresholds": thresholds}
    arguments |= {name: value for name, value in given.items() if value is not None}
    known = {**inspect.signature(measure).parameters, **further}
    for name in arguments:
        if name not in known:
            raise InputError(
                f"{target} returned an argument {name!r} that diagnose does not take. {did_you_mean(name, known)}"
            )
    report: DiagnosticReport = run_theirs(lambda: measure(**arguments), f"measuring what {target} returned")
    return report


def _torch_diagnose() -> tuple[Any, dict[str, Any]]:
    from walkback.protocol.diagnose import diagnose

    return diagnose, {}


def _jax_diagnose(target: str, measuring: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What diagnoses a network in JAX, and the arguments that it hands on; options about modules are refused."""
    from walkback.jax import diagnose
    from walkback.jax.measuring import session_of

    other = next((name for name in measuring if name != "tokens"), None)
    if other is not None:
        raise InputError(
            f"--{other.replace('_', '-')} is about modules of torch, and {target} returned a network in JAX, whose "
            "parts are functions. Leave the option out."
        )
    return diagnose, dict(inspect.signature(session_of).parameters)
