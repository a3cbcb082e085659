"""The comparisons that a command line means, and the command line that a comparison is made by."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from walkback.addresses import allow
from walkback.errors import InputError

if TYPE_CHECKING:
    from walkback.lab.comparisons.plan import Comparison

REQUIRED = {"methods": "--methods", "architecture": "--arch", "data": "--data"}
FLAGS = {**REQUIRED, "budget": "--budget", "seeds": "--seeds", "epochs": "--epochs", "validation": "--validation"}


def comparisons_from(
    preset: str | None,
    given: Mapping[str, Any],
    assignments: Iterable[str],
    name: str | None,
    precision: str | None = None,
    default: str = "",
) -> list[Comparison]:
    """Those of a preset, or the one that the options describe; `default` is the preset where nothing is said."""
    from walkback.lab.cli.grid_options import settings_from
    from walkback.lab.comparisons.presets import preset as of_preset

    allow(given["architecture"], given["data"])
    settings = settings_from(assignments) | ({} if precision is None else {"precision": precision})
    options = {key: value for key, value in given.items() if value not in (None, [])}
    said = preset or (default if not options else "")
    if not said:
        return [_comparison(options, settings, name)]
    others = {"--set or --precision": settings, "--name": name}
    unusable = [*(FLAGS[option] for option in options), *(flag for flag, value in others.items() if value)]
    if unusable:
        raise InputError(
            f"a preset is a whole comparison, so {', '.join(unusable)} cannot be given with it. Leave out --preset, or "
            "the others."
        )
    return of_preset(said)


def _comparison(options: dict[str, Any], settings: dict[str, Any], name: str | None) -> Comparison:
    from walkback.lab.cli.grid_options import rows_from
    from walkback.lab.comparisons.plan import Comparison
    from walkback.protocol.schema import file_name

    missing = [flag for option, flag in REQUIRED.items() if option not in options]
    if missing:
        raise InputError(f"{', '.join(missing)} not given. Give them, or --preset field.")
    rows = tuple(row for word in options.pop("methods") for row in rows_from(word))
    called = "" if name is None else file_name(name, "--name")
    comparison = Comparison(rows=rows, settings=settings, called=called, **options)
    file_name(comparison.name, "the name that these settings make")
    comparison.tuning_runs()  # settings that no run can have are refused before anything is trained
    return comparison


def command_of(comparison: Comparison) -> str:
    """The command line that makes it again."""
    from walkback.lab.comparisons.presets import FIELD
    from walkback.lab.runs.options import SECTIONS

    words = ["walkback", "lab", "compare"]
    if comparison.name in FIELD:
        return shlex.join([*words, "--preset", comparison.name])
    words += ["--methods", *(row.label for row in comparison.rows)]
    words += ["--arch", comparison.architecture, "--data", comparison.data, "--budget", str(comparison.budget)]
    words += ["--seeds", str(comparison.seeds), "--epochs", str(comparison.epochs)]
    words += ["--validation", f"{comparison.validation:g}"]
    for key, value in comparison.settings.items():
        table = (
            {f"{SECTIONS[key]}.{option}": each for option, each in value.items()} if key in SECTIONS else {key: value}
        )
        words += [part for place, each in table.items() for part in ("--set", f"{place}={_literal(each)}")]
    return shlex.join([*words, *(["--name", comparison.called] if comparison.called else [])])


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
