"""The grids that a command line means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from walkback.addresses import allow
from walkback.errors import InputError

if TYPE_CHECKING:
    from walkback.lab.grids.grid import GridConfig, GridRow

REQUIRED = {"architecture": "--arch", "data": "--data", "methods": "--methods"}
FLAGS = {**REQUIRED, "seeds": "--seeds", "epochs": "--epochs"}


def grids_from(
    preset: str | None,
    given: Mapping[str, Any],
    assignments: Iterable[str],
    name: str | None,
    precision: str | None = None,
) -> dict[str, GridConfig]:
    """Grids by the names of their results: those of a preset, or the one that the options describe."""
    from walkback.lab.grids.presets import preset as of_preset
    from walkback.protocol.schema import file_name

    allow(given["architecture"], given["data"])
    settings = settings_from(assignments)
    of_all = {} if precision is None else {"precision": precision}
    options = {key: value for key, value in given.items() if value not in (None, [])}
    if preset is None:
        grid = _grid(options, settings | of_all)
        if name is None:
            return {file_name(grid.name, "the name that these settings make"): grid}
        return {file_name(name, "--name"): grid}
    others = {"--set": settings, "--name": name, "--precision": of_all}
    unusable = [*(FLAGS[option] for option in options), *(flag for flag, value in others.items() if value)]
    if unusable:
        raise InputError(
            f"a preset is a whole grid, so {', '.join(unusable)} cannot be given with it. "
            "Leave out --preset, or the others."
        )
    return {grid.name: grid for grid in of_preset(preset)}


def _grid(options: Mapping[str, Any], settings: dict[str, Any]) -> GridConfig:
    from walkback.lab.grids.grid import GridConfig

    missing = [flag for option, flag in REQUIRED.items() if option not in options]
    if missing:
        raise InputError(f"{', '.join(missing)} must be given, or --preset resmlp_d256.")
    rows = tuple(row for word in options["methods"] for row in rows_from(word))
    others = {option: value for option, value in options.items() if option != "methods"}
    return GridConfig(rows=rows, settings=settings, **others)


def rows_from(word: str) -> tuple[GridRow, ...]:
    """The rows that `bp` or `dfa:penalty=0.01,credit_norm=none` stands for; the word is the row's label.

    A method may be `module:Class`, with options after another colon.
    """
    from walkback.lab.cli.settings import value_of
    from walkback.lab.grids.grid import row_of, rows_named

    method, colon, options = _split(word)
    if not colon and "," in method:
        raise InputError(f"there is no method called {method!r}. Separate methods by spaces.")
    if not colon:
        return rows_named([method])
    pairs = [pair.partition("=") for pair in options.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise InputError(f"{word!r} is not METHOD:OPTION=VALUE,…, such as dfa:credit_norm=none.")
    return (row_of(word, method, {name: value_of(value) for name, _, value in pairs}),)


def _split(word: str) -> tuple[str, str, str]:
    """The method, a colon where there are options, and the options."""
    from walkback.lab.registry import METHODS

    method, colon, rest = word.partition(":")
    if not colon or method in METHODS or "=" in rest.partition(":")[0]:
        return method, colon, rest
    attribute, colon, rest = rest.partition(":")
    allow(f"{method}:{attribute}")
    return f"{method}:{attribute}", colon, rest


def settings_from(assignments: Iterable[str]) -> dict[str, Any]:
    """What several `--set NAME=VALUE` come to; settings that have an option of their own are refused."""
    from walkback.lab.cli.settings import assigned
    from walkback.lab.runs.config import merged

    settings: dict[str, Any] = {}
    for assignment in assignments:
        settings = merged(settings, assigned(assignment))
    for name in ("method", "architecture", "data", "seed", "epochs"):
        if name in settings:
            raise InputError(
                f"--set {name}=… is not for a grid: it has an option of its own, see `--help` of the command."
            )
    return settings
