"""What a rule supplies, and what it finds."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from walkback.addresses import require_call
from walkback.errors import InputError

if TYPE_CHECKING:
    from walkback.lint.module import Module

BROKEN = "WB000"
"""The code of a file that is not valid Python; no rule has it."""


class Hit(NamedTuple):
    """One place that a rule found."""

    node: ast.expr | ast.stmt
    what: str
    """What stands there, in a few words that start the message."""
    instead: str
    """The line to write instead."""


@dataclass(frozen=True)
class Rule:
    """One thing that source code can show to be wrong."""

    code: str
    title: str
    why: str
    """Why the number that comes out lies."""
    check: Callable[[Module], Iterator[Hit]]
    pitfall: int | str | None = None
    """The pitfall that this rule finds in source code, by its number or name."""


@dataclass(frozen=True, order=True)
class Finding:
    """A hit with its place in a file; lines and columns count from 1."""

    path: str
    line: int
    column: int
    code: str
    what: str
    why: str
    instead: str
    source: str = ""

    @property
    def message(self) -> str:
        """What is wrong and what to write, on one line."""
        return f"{self.what}; write: {self.instead}" if self.instead else self.what


@dataclass(frozen=True, order=True)
class Broken:
    """A file that could not be checked, and why."""

    path: str
    line: int
    column: int
    problem: str


def check_rule(name: str, thing: Any) -> None:
    """Refuse what is no rule, or has another code than the name that it is known by."""
    if not isinstance(thing, Rule):
        raise InputError(f"the lint rule {name!r} is {thing!r}; expected a walkback.lint.Rule")
    if not re.fullmatch(r"[A-Z]{1,3}[0-9]{1,3}", thing.code) or thing.code == BROKEN:
        raise InputError(f"the lint rule {name!r} has the code {thing.code!r}; expected one such as EX001")
    if ":" not in name and name != thing.code:
        raise InputError(f"the lint rule {name!r} has the code {thing.code}; expected one name for both")
    from walkback.lint import RULES

    if any(other.code == thing.code and other is not thing for _, other in RULES.others(name)):
        raise InputError(f"the code {thing.code} of the lint rule {name!r} is another rule's")
    require_call(f"the check of the lint rule {name!r}", thing.check, 1, "a function of a Module that yields hits")
