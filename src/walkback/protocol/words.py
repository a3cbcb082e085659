"""The words of a record that are not free: letters, units and verdicts, refused on reading where they are others.

Whatever else a record says in words is free text, and escaped wherever it is shown.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

TRUSTWORTHY = "trustworthy"
WALK_BACK = "needs walk-back: "
INCOMPLETE = "incomplete: "
NON_FINITE = "non-finite values"
"""The reason of a firing on NaN or Inf."""

PUBLISHED_PANEL = "april2026"
"""The panel whose words these are."""

Outcome = Literal["pass", "fail", "incomplete"]
"""What every panel's words come down to."""

LONGEST_UNIT, LONGEST_VERDICT = 40, 2000


def checked_letter(value: str) -> str:
    """What a diagnostic is called by, as it is; anything else raises ValueError."""
    if not re.fullmatch(r"[a-z][a-z0-9]{0,2}", value):
        raise ValueError("expected a letter, a to z, and at most two letters or digits after it")
    return value


def _unit(value: str) -> str:
    if len(value) > LONGEST_UNIT or not value.isprintable() or value != value.strip():
        raise ValueError(f"expected a unit of at most {LONGEST_UNIT} printable characters, such as pp")
    return value


def _verdict(value: str) -> str:
    if len(value) > LONGEST_VERDICT or not value.isprintable():
        raise ValueError(f"expected a verdict of at most {LONGEST_VERDICT} printable characters, in one line")
    return value


def is_published(verdict: str) -> bool:
    """Whether a verdict is in the words of the April 2026 edition, or there is none."""
    return verdict in ("", TRUSTWORTHY) or verdict.startswith((WALK_BACK, INCOMPLETE))


PUBLISHED_FORMS = f"{TRUSTWORTHY!r}, {WALK_BACK!r} and reasons, or {INCOMPLETE!r} and what is missing"


Letter = Annotated[str, AfterValidator(checked_letter)]
Unit = Annotated[str, AfterValidator(_unit)]
Verdict = Annotated[str, AfterValidator(_verdict)]
