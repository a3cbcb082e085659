"""The words of a record that are not free: letters, units and verdicts, refused on reading where they are others.

Whatever else a record says in words is free text, and escaped wherever it is shown.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

TRUSTWORTHY = "trustworthy"
WALK_BACK = "needs walk-back: "
INCOMPLETE = "incomplete: "

LONGEST_UNIT, LONGEST_VERDICT = 40, 2000


def _letter(value: str) -> str:
    if not re.fullmatch(r"[a-z]", value):
        raise ValueError("expected one letter, a to z")
    return value


def _unit(value: str) -> str:
    if len(value) > LONGEST_UNIT or not value.isprintable() or value != value.strip():
        raise ValueError(f"expected a unit of at most {LONGEST_UNIT} printable characters, such as pp")
    return value


def _verdict(value: str) -> str:
    known = value in ("", TRUSTWORTHY) or value.startswith((WALK_BACK, INCOMPLETE))
    if not known or len(value) > LONGEST_VERDICT or not value.isprintable():
        raise ValueError(
            f"expected {TRUSTWORTHY!r}, {WALK_BACK!r} and reasons, or {INCOMPLETE!r} and what is missing, in one line"
        )
    return value


Letter = Annotated[str, AfterValidator(_letter)]
Unit = Annotated[str, AfterValidator(_unit)]
Verdict = Annotated[str, AfterValidator(_verdict)]
