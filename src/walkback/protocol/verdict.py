"""Readings become a verdict; several seeds become `unanimous` or `mixed`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from walkback.protocol.records import Reading, State
from walkback.protocol.words import INCOMPLETE as INCOMPLETE
from walkback.protocol.words import TRUSTWORTHY as TRUSTWORTHY
from walkback.protocol.words import WALK_BACK as WALK_BACK

NON_FINITE = "non-finite values"

EXIT_TRUSTWORTHY, EXIT_WALK_BACK, EXIT_ERROR, EXIT_INCOMPLETE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


def verdict_of(readings: Sequence[Reading], require_all: bool = False) -> str:
    """`trustworthy`, `needs walk-back: ` and the reasons, or `incomplete: ` and what is missing.

    A firing outranks `incomplete`. Without (a) and (b) there is nothing to judge; other gaps make a
    verdict incomplete only where all four are required.
    """
    reasons = [r.reason for r in readings if r.state is State.FIRE]
    if reasons:
        ordered = sorted(dict.fromkeys(reasons), key=lambda reason: reason != NON_FINITE)
        return WALK_BACK + "; ".join(ordered)
    missing = [r for r in readings if r.state in (State.NOT_MEASURED, State.UNDECIDED)]
    core_missing = {"a", "b"} <= {r.letter for r in missing}
    if missing and (require_all or core_missing):
        return INCOMPLETE + _gaps(missing)
    return TRUSTWORTHY


def is_complete(readings: Iterable[Reading]) -> bool:
    """Whether every diagnostic came to PASS or FIRE."""
    return all(r.state in (State.PASS, State.FIRE) for r in readings)


def qualified(verdict: str, readings: Sequence[Reading]) -> str:
    """The verdict with what it rests on: `trustworthy on (a), (b), (c); (d) not measured`."""
    gaps = _gaps([r for r in readings if r.state in (State.NOT_MEASURED, State.UNDECIDED)])
    if verdict == TRUSTWORTHY:
        passed = ", ".join(f"({r.letter})" for r in readings if r.state is State.PASS)
        return f"{verdict} on {passed}" + (f"; {gaps}" if gaps else "")
    if verdict.startswith(INCOMPLETE) or not gaps:
        return verdict
    return f"{verdict} [{gaps}]"


def exit_status(verdicts: Iterable[str]) -> int:
    """0 all trustworthy, 1 a walk-back among them, 3 none of those but something incomplete."""
    seen = list(verdicts)
    if any(v.startswith(WALK_BACK) for v in seen):
        return EXIT_WALK_BACK
    return EXIT_INCOMPLETE if any(v.startswith(INCOMPLETE) for v in seen) else EXIT_TRUSTWORTHY


def kind_of(verdict: str) -> str:
    """A verdict without its reasons: what seeds must agree on to be unanimous."""
    return verdict.partition(":")[0]


def _gaps(readings: Sequence[Reading]) -> str:
    words = {State.NOT_MEASURED: "not measured", State.UNDECIDED: "undecided"}
    parts = []
    for state, word in words.items():
        letters = ", ".join(f"({r.letter})" for r in readings if r.state is state)
        if letters:
            parts.append(f"{letters} {word}")
    return ", ".join(parts)
