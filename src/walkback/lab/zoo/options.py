"""Options by name: unknown names and impossible values are refused in a sentence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from walkback.errors import InputError
from walkback.registry import did_you_mean

Options = TypeVar("Options")


def refuse_unknown(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `InputError` for the first given name that is not known."""
    allowed = set(known)
    for name in given:
        if name not in allowed:
            suggestion = did_you_mean(name, allowed) if allowed else "It takes none."
            raise InputError(f"{owner} has no option {name!r}. {suggestion}")


def read_options(owner: str, kind: type[Options], given: Mapping[str, Any]) -> Options:
    """A frozen options dataclass from keyword options, each name and each value checked."""
    hints = get_type_hints(kind)
    refuse_unknown(owner, given, hints)
    options = kind(**given)
    for name, hint in hints.items():
        _check_value(owner, name, getattr(options, name), hint)
    return options


def _check_value(owner: str, name: str, value: Any, hint: Any) -> None:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            choices = ", ".join(repr(choice) for choice in get_args(hint))
            raise InputError(f"{owner}: {name} is {value!r}; expected one of {choices}.")
    elif not _is_number(value, hint):
        raise InputError(f"{owner}: {name} is {value!r}; expected {_in_words(hint)}.")


def _is_number(value: Any, hint: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) if hint is int else math.isfinite(value)


def _in_words(hint: Any) -> str:
    return "a whole number" if hint is int else "a number"


def require_at_least(owner: str, least: float, **values: float) -> None:
    """Raise `InputError` for a value below the least that makes sense."""
    for name, value in values.items():
        if not value >= least:
            raise InputError(f"{owner}: {name} is {value!r}; expected {least} or more.")


def require_at_most(owner: str, most: float, **values: float) -> None:
    """Raise `InputError` for a value above the most that can be meant."""
    for name, value in values.items():
        if not value <= most:
            raise InputError(f"{owner}: {name} is {value!r}; expected {most:,} or less.")


def require_positive(owner: str, **values: float) -> None:
    """Raise `InputError` for a value that is not above zero, or is infinite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise InputError(f"{owner}: {name} is {value!r}; expected a finite number above 0.")


def as_dict(options: Any) -> dict[str, Any]:
    """The options again as keywords."""
    return dataclasses.asdict(options)
