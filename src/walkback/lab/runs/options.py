"""Options of the method, the architecture and the data set of a run: completed, checked, compared."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES, DATASETS, METHODS
from walkback.protocol.schema import shortened
from walkback.registry import Registry, did_you_mean

if TYPE_CHECKING:
    from walkback.lab.runs.config import RunConfig

SECTIONS = {"method_options": "method", "architecture_options": "arch", "data_options": "data"}
"""The tables of options in a config, and the prefix that stands for each on the command line."""
_OWNERS: dict[str, tuple[str, Registry]] = {
    "method_options": ("method", METHODS),
    "architecture_options": ("architecture", ARCHITECTURES),
    "data_options": ("data", DATASETS),
}


_WHEREABOUTS = {"path", "download", "progress", "fingerprint"}
"""Arguments of a data set that say where it is found, not what it is; a run does not depend on them."""


def default_options(section: str, name: str) -> dict[str, Any]:
    """The options that a method, architecture or data set has, each with its default, as JSON holds them."""
    made = _OWNERS[section][1].load(name)
    if section == "method_options":
        return {field.name: _plain(field.default) for field in dataclasses.fields(made.options_type)}
    keywords = [p for p in inspect.signature(made).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {p.name: _plain(p.default) for p in keywords if p.name not in _WHEREABOUTS}


def complete_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run with every option filled in; names that nobody knows are refused."""
    settings = dict(given)
    for section, (owner, registry) in _OWNERS.items():
        name, options = settings.get(owner), settings.get(section, {})
        if not isinstance(name, str) or not isinstance(options, Mapping):
            continue  # What is missing, or is no table, is refused with the rest of the settings.
        known = default_options(section, name)
        for option in options:
            if option not in known:
                suggestion = did_you_mean(option, known) if known else "It takes none."
                raise InputError(f"{registry.kind} {name} has no option {option!r}. {suggestion}")
            _check_kind(f"{registry.kind} {name}", option, options[option], known[option])
        settings[section] = {key: _like(default, options.get(key, default)) for key, default in known.items()}
    _check_method_options(settings)
    return settings


def _check_method_options(settings: Mapping[str, Any]) -> None:
    if isinstance(settings.get("method"), str) and isinstance(settings.get("method_options"), Mapping):
        from walkback.lab.zoo.options import read_options

        kind = METHODS.load(settings["method"]).options_type
        read_options(f"method {settings['method']}", kind, settings["method_options"])


def changed_options(config: RunConfig, section: str) -> dict[str, Any]:
    """The options of one table that differ from their defaults."""
    defaults = default_options(section, getattr(config, _OWNERS[section][0]))
    options = getattr(config, section)
    return {name: value for name, value in options.items() if value != defaults[name]}


def identifying_options(config: RunConfig, section: str) -> dict[str, Any]:
    """The options of one table that the id is a hash of: those that differ from walkback's defaults.

    All of them where the method, the architecture or the data set is others': what a run of theirs is can then be told
    from its record, without importing anything by its word, and whatever their defaults have become since.
    """
    if is_own(section, getattr(config, _OWNERS[section][0])):
        return changed_options(config, section)
    return dict(getattr(config, section))


def require_known(settings: Mapping[str, Any]) -> None:
    """Raise `UnknownName` for the first method, architecture or data set that is not known here; nothing is loaded."""
    for owner, registry in _OWNERS.values():
        registry.require(str(settings.get(owner)))


def is_own(section: str, name: str) -> bool:
    """Whether a method, architecture or data set is one of walkback's own."""
    return name in _OWNERS[section][1].own


LARGEST = 2**53
"""Whole numbers up to here are exact as JSON numbers everywhere."""
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", list: "a list"}


def _check_kind(owner: str, option: str, value: Any, default: Any) -> None:
    """Raise where a value is of another kind than its default; a default of None says only that it is no table."""
    kind, plain = type(default), _plain(value)
    if kind not in _KINDS:
        if plain is not None and not _is_simple(plain):
            raise InputError(f"{owner}: {option} is {shortened(value)}; expected a number, a word or a list of them.")
        return
    if isinstance(plain, int) and abs(plain) > LARGEST:
        raise InputError(f"{owner}: {option} is {shortened(value)}; expected at most {LARGEST:,}.")
    fits = isinstance(plain, int | float) if kind is float else isinstance(plain, kind)
    if not fits or (isinstance(plain, bool) and kind is not bool):
        raise InputError(f"{owner}: {option} is {shortened(value)}; expected {_KINDS[kind]}.")
    if kind is list and default:
        for entry in plain:
            _check_kind(owner, f"an entry of {option}", entry, default[0])


def _is_simple(value: Any) -> bool:
    return all(map(_is_simple, value)) if isinstance(value, list) else type(value) in _KINDS


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _like(default: Any, value: Any) -> Any:
    """A value as its default is written, so that 1 and 1.0 are one option and one id."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if isinstance(default, float) and whole else _plain(value)
