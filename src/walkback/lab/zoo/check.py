"""Whether a method, an architecture or a data set of others can be used, before anything is made with it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from walkback.addresses import require_call
from walkback.errors import InputError
from walkback.lab.zoo.contract import CreditlessMethod, Method, MethodOptions


def check_method(name: str, thing: Any) -> None:
    """Refuse what is no method, or leaves out what every method has to say."""
    if not (isinstance(thing, type) and issubclass(thing, Method)):
        raise InputError(f"the method {name!r} is {thing!r}; expected a subclass of walkback.lab.zoo.Method")
    lacking = sorted(getattr(thing, "__abstractmethods__", ()))
    if lacking:
        raise InputError(f"the method {name!r} does not define {' and '.join(lacking)}")
    options = thing.options_type
    if not (isinstance(options, type) and issubclass(options, MethodOptions) and dataclasses.is_dataclass(options)):
        raise InputError(f"the method {name!r} has options_type {options!r}; expected a dataclass of MethodOptions")
    for field in dataclasses.fields(options):
        if field.default is dataclasses.MISSING:
            raise InputError(f"the method {name!r}: its option {field.name} has no default; every option has one")
    for word in ("paper", "gamma", "defined_on", "no_null"):
        if not isinstance(getattr(thing, word), str):
            raise InputError(f"the method {name!r}: its {word} is {getattr(thing, word)!r}; expected a sentence")
    _check_credit(name, thing)


def _check_credit(name: str, thing: type[Method]) -> None:
    """Refuse what says one thing of its credit and does another."""
    if thing.has_credit == issubclass(thing, CreditlessMethod):
        says = "a credit" if thing.has_credit else "none"
        raise InputError(
            f"the method {name!r} says that it has {says} (has_credit is {thing.has_credit}); "
            "one without extends walkback.lab.CreditlessMethod, and no other does"
        )
    if not thing.has_credit and not thing.gamma:
        raise InputError(f"the method {name!r} has no credit, and no gamma that says why; give it that sentence")
    if thing.has_credit and not thing.answers_by_head():
        raise InputError(
            f"the method {name!r} answers by a predict of its own, so no loss at the head says what its credit is "
            "worth; extend walkback.lab.CreditlessMethod, or answer by the head"
        )


def check_architecture(name: str, thing: Any) -> None:
    """Refuse what is no function of a `DataSpec` whose other arguments are keywords with defaults."""
    _require_options(f"the architecture {name!r}", thing, "a function from a DataSpec to a BlockModel")


def check_dataset(name: str, thing: Any) -> None:
    """Refuse what is no function of a directory whose other arguments are keywords with defaults."""
    _require_options(f"the data set {name!r}", thing, "a function from a cache directory to a Dataset")


def _require_options(what: str, thing: Any, expected: str) -> None:
    require_call(what, thing, 1, expected)
    others = list(inspect.signature(thing).parameters.values())[1:]
    for parameter in others:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            raise InputError(
                f"{what} takes {parameter.name} by its place; expected options as keywords, behind a * in the signature"
            )
