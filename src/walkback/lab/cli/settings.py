"""Settings of a run from the command line: flags, `--set NAME=VALUE`, and a TOML file under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.addresses import allow
from walkback.errors import InputError
from walkback.protocol.schema import parse_json
from walkback.registry import did_you_mean

if TYPE_CHECKING:
    from walkback.lab.runs.config import RunConfig

DEFAULTS = {"seed": 42, "epochs": 30}


def config_from(
    flags: Mapping[str, Any], assignments: Iterable[str], file: Path | None, recipe: str | None = None
) -> RunConfig:
    """The config that a command line means: what is given there goes before the file, and that before the recipe."""
    from walkback.lab.runs.config import RunConfig, merged, read_toml, refuse_unknown_settings

    allow(flags.get("method"), flags.get("architecture"), flags.get("data"))  # what a file says is not allowed by it
    source = str(file) if file is not None else ""
    given = merged(read_toml(file) if file is not None else {}, _nested(flags))
    for assignment in assignments:
        given = merged(given, assigned(assignment))
    beneath = DEFAULTS | _recipe(recipe, given.get("method"))
    # A setting that is given replaces what is beneath it; only tables of options are merged.
    beneath = {name: value for name, value in beneath.items() if name not in given or isinstance(value, Mapping)}
    settings = merged(beneath, given)
    refuse_unknown_settings(settings, source)
    missing = [name for name in ("method", "architecture", "data") if name not in settings]
    if missing:
        what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
        raise InputError(
            f"the run's {what} not given. Pass --method, --arch and --data, or --config FILE; "
            "`walkback lab zoo` lists what there is."
        )
    return RunConfig.from_dict(settings, source)


def _recipe(name: str | None, method: Any) -> dict[str, Any]:
    """The settings that `--as NAME` stands for."""
    if name is None:
        return {}
    from walkback.lab.runs import source_recipe

    if name != source_recipe.NAME:
        raise InputError(f"--as got {name!r}; expected {source_recipe.NAME}, the recipe of the source study.")
    if not isinstance(method, str):
        raise InputError(f"--as {name} needs a method: give --method dfa, fa_block, state_bridge, …")
    return source_recipe.recipe(method)


def _nested(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that were given, those of the method in its table of options."""
    given = {name: value for name, value in flags.items() if value is not None}
    options = {name: given.pop(name) for name in ("credit_norm", "penalty") if name in given}
    return given | ({"method_options": options} if options else {})


def assigned(assignment: str) -> dict[str, Any]:
    """`arch.width=512` as {"architecture_options": {"width": 512}}."""
    from walkback.lab.runs.options import SECTIONS

    place, equals, value = assignment.partition("=")
    if not equals or not place:
        raise InputError(f"--set got {assignment!r}; expected NAME=VALUE, such as arch.width=512.")
    prefix, dot, name = place.rpartition(".")
    if not dot:
        return {name: value_of(value)}
    sections = {short: section for section, short in SECTIONS.items()}
    if prefix not in sections:
        raise InputError(f"--set got {assignment!r}. {did_you_mean(prefix, sections)}")
    return {sections[prefix]: {name: value_of(value)}}


def value_of(text: str) -> Any:
    """A number, truth value or list as JSON writes it; anything else is a word."""
    try:
        return parse_json(text)
    except ValueError:
        return text
