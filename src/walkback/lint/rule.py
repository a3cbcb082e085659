"""What a rule supplies, and what it finds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    pitfall: int | None = None
    """The pitfall that this rule finds in source code."""


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
