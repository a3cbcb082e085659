"""What a verb that judges is told by: the panel that decides, and every threshold that a known diagnostic declares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkback.errors import InputError

if TYPE_CHECKING:
    from walkback.protocol.diagnostics.declare import Threshold
    from walkback.protocol.thresholds import DiagnosticThresholds

PanelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Which panel decides: april2026 (the default), june2026, calibrated, or your own."
    ),
]


def with_thresholds(verb: Callable[..., int]) -> Callable[..., int]:
    """The verb with one option for each declared threshold; what is given reaches it as `thresholds`, else None."""
    from walkback.protocol.diagnostics.known import known

    declared = {name: (one.letter, t) for one in known().values() for name, t in one.thresholds.items()}
    signature = inspect.signature(verb, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "thresholds"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, *of))
        for name, of in declared.items()
    ]

    @functools.wraps(verb)
    def told(**arguments: Any) -> int:
        given = {name: arguments.pop(name) for name in declared}
        given = {name: value for name, value in given.items() if value is not None}
        return verb(**arguments, thresholds=_thresholds(given))

    told.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return told


def _thresholds(given: dict[str, float]) -> DiagnosticThresholds | None:
    """What was given; what cannot be a threshold is refused by the name of its option."""
    from walkback.protocol.thresholds import DiagnosticThresholds

    try:
        return DiagnosticThresholds(**given) if given else None
    except InputError as error:
        words = str(error).removeprefix("DiagnosticThresholds: ")
        for name in given:
            words = words.replace(name, _dashed(name))
        raise InputError(words) from None


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option(name: str, letter: str, threshold: Threshold) -> Any:
    side = "above" if threshold.fires == ">" else "below"
    unit = f" {threshold.unit}" if threshold.unit else ""
    default = "" if threshold.default is None else f" Default: {threshold.default:g}{unit}."
    words = f"({letter}) {threshold.label}: fires {side} this.{default}"
    option = typer.Option(_dashed(name), help=words, rich_help_panel="Thresholds")
    return Annotated[float | None, option]
