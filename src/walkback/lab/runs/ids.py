"""A run's id as a hash of its settings, from a record alone: what a file of a run is held to. No torch.

`results/runs/3f2a….json` is that run because its config hashes to 3f2a…, not because it is called so. The hash is over
the settings that differ from their defaults. Those of options are the zoo's, which imports torch; `run_defaults.json`
holds a copy of them, and what it lacks is asked of the zoo.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from walkback.errors import RecordError
from walkback.protocol.schema import shortened

CONFIG_VERSION = 1
"""Raised when the same config comes to mean another run; ids made before then no longer match."""
ID_LENGTH = 12
OWNERS = {"method_options": "method", "architecture_options": "architecture", "data_options": "data"}
"""The tables of options in a config, and the setting that says whose they are."""
DEFAULTS_FILE = Path(__file__).with_name("run_defaults.json")


def is_id(value: Any) -> bool:
    """Whether this is a run's id: twelve hex digits, which lead nowhere as the name of a file."""
    return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{ID_LENGTH}}}", value) is not None


def checked_id(value: Any, source: object) -> str:
    """The id of a run, before any path is made of it; anything else is refused."""
    if not is_id(value):
        raise RecordError(f"{source} names the run {shortened(value)}; expected an id of {ID_LENGTH} hex digits.")
    return str(value)


def hashed(identity: Mapping[str, Any]) -> str:
    """Twelve hex digits of the SHA-256 of the settings that differ from their defaults."""
    canonical = json.dumps({"version": CONFIG_VERSION} | dict(identity), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:ID_LENGTH]


def run_id_of(settings: Mapping[str, Any]) -> str:
    """The id of the run with these settings, as a config gives them; what is no config raises what reading it does."""
    known = _defaults()["settings"]
    changed = {name: value for name, value in settings.items() if name not in OWNERS and not _is(known, name, value)}
    for section, owner in OWNERS.items():
        options = dict(settings.get(section) or {})
        defaults = _defaults_of(section, settings[owner], options)
        if defaults is None:
            changed |= {section: options} if options else {}
            continue
        own = {name: _like(defaults[name], value) for name, value in options.items()}
        own = {name: value for name, value in own.items() if value != defaults[name]}
        changed |= {section: own} if own else {}
    return hashed(changed)


def all_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of a run by one name, such as `method.credit_site`, with the defaults that a record leaves out.

    An older record lacks options that came later; it was trained as their defaults say.
    """
    known: dict[str, Any] = _defaults()["settings"]
    found = {name: value for name, value in (known | dict(settings)).items() if name not in OWNERS}
    for section, owner in OWNERS.items():
        options = dict(settings.get(section) or {})
        defaults = _defaults_of(section, settings[owner], options) or {}
        kind = section.removesuffix("_options")
        found |= {f"{kind}.{name}": _like(defaults.get(name), value) for name, value in (defaults | options).items()}
    return found


def frozen_settings(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings of the matched frozen-blocks run; None for a run that is a baseline.

    A run of which some blocks learn, `ladder:K`, has the baseline of which none does. Random targets stay random.

    The penalty is on blocks that learn. With none it does nothing, so it is left out, and one baseline serves
    every strength of it.
    """
    if settings.get("freezing") in ("blocks", "shallow"):
        return None
    options = dict(settings.get("method_options") or {})  # left out, they are the defaults
    return {**settings, "freezing": "blocks", "method_options": {**options, "penalty": 0.0}}


def held_to_id(result: Any, run_id: str | None, source: object, remedy: str = "train the run again") -> dict[str, Any]:
    """The record of a run, whose config is the run that it says it is, with the baseline that is its own.

    Args:
        result: what `result.json` or `runs/ID.json` holds.
        run_id: the run that is asked for, where one is; else whichever the record says.
        source: where the record is from.
        remedy: what to do where it holds another run.
    """
    if not isinstance(result, dict) or not isinstance(result.get("config"), dict):
        raise RecordError(f"{source} is not the result of a run. Remove it, and {remedy}.")
    said, found = checked_id(result.get("id"), source), _id_or_why(result["config"])
    if said != found or said != (run_id or said):
        raise RecordError(
            f"{source} holds another run than it should: expected {run_id or said}, it says {said}, and its config is "
            f"that of {found}{_unknown(result['config'])}. Remove it, and {remedy}."
        )
    _check_baseline(result, source, remedy)
    return result


def _id_or_why(config: Mapping[str, Any]) -> str:
    """The id that a config hashes to, or that it is none."""
    try:
        return run_id_of(config)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return f"no run ({shortened(error)})"
    except RecordError as error:
        return f"no run ({error})"


def _unknown(config: Mapping[str, Any]) -> str:
    """Which of its names nobody here knows, in brackets."""
    from walkback.errors import UnknownName
    from walkback.lab.runs.options import require_known

    try:
        require_known(config)
    except UnknownName as error:
        return f" ({error})"
    return ""


def _check_baseline(result: Mapping[str, Any], source: object, remedy: str) -> None:
    """(d) is against the same run with its blocks frozen, and against no other."""
    baseline = result.get("baseline")
    if baseline is None:
        return
    named = checked_id(baseline.get("id") if isinstance(baseline, Mapping) else baseline, source)
    frozen = frozen_settings(result["config"])
    expected = run_id_of(frozen) if frozen is not None else None
    if named != expected:
        raise RecordError(
            f"{source} names {named} as its frozen baseline; by its config that is {expected or 'none'}. Remove it, "
            f"and {remedy}."
        )


@lru_cache(maxsize=1)
def _defaults() -> dict[str, Any]:
    defaults: dict[str, Any] = json.loads(DEFAULTS_FILE.read_text(encoding="utf-8"))
    return defaults


def _defaults_of(section: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the options of a method, architecture or data set; the zoo's own where the copy does not know them all.

    None of what is others', whose options all count: see `options.identifying_options`.
    """
    copied: dict[str, Any] | None = _defaults()[section].get(name)
    if copied is not None and options.keys() <= copied.keys():
        return copied
    from walkback.errors import WalkbackError
    from walkback.lab.runs.options import default_options, is_own

    if not is_own(section, name):
        return None

    try:
        return default_options(section, name)
    except WalkbackError as error:
        raise RecordError(str(error)) from None


def _is(known: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in known and value == known[name]


def _like(default: Any, value: Any) -> Any:
    """A value as its default is written, so that 1 and 1.0 are one option and one id."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if isinstance(default, float) and whole else value
