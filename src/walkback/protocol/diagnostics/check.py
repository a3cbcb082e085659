"""Whether a class can join the diagnostics: it says what it must, and takes no name that is another's. No torch."""

from __future__ import annotations

import re
from typing import Any

from walkback.errors import InputError
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.words import checked_letter
from walkback.registry import DIAGNOSTICS


def check_diagnostic(name: str, thing: Any) -> None:
    """Refuse what is no diagnostic, or cannot stand beside those that are known."""
    if not (isinstance(thing, type) and issubclass(thing, Diagnostic)):
        raise InputError(f"the diagnostic {name!r} is {thing!r}; expected a subclass of walkback.Diagnostic")
    lacking = [each for each in ("letter", "title", "question", "meaning") if not getattr(thing, each, "")]
    if lacking:
        raise InputError(f"the diagnostic {name!r} does not say its {' and '.join(lacking)}")
    try:
        checked_letter(thing.letter)
    except ValueError as error:
        raise InputError(f"the diagnostic {name!r} has the letter {thing.letter!r}; {error}") from None
    if not thing.quantities and thing.judge is Diagnostic.judge:
        raise InputError(f"the diagnostic {name!r} has no quantities; expected one at least, or a judge of its own")
    if thing.measures and thing.summarise is Diagnostic.summarise:
        raise InputError(f"the diagnostic {name!r} has a measure, and has no summarise to turn it into quantities")
    for each in [*thing.thresholds, *(quantity.name for quantity in thing.quantities)]:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", each):
            raise InputError(f"the diagnostic {name!r} names {each!r}; expected a name such as rank_floor")
    for other_name, other in DIAGNOSTICS.others(name):
        if other is not thing:
            _check_apart(name, thing, other_name, other)


def _check_apart(name: str, thing: type[Diagnostic], other_name: str, other: type[Diagnostic]) -> None:
    if thing.letter == other.letter:
        raise InputError(f"the letter ({thing.letter}) is that of the diagnostic {other_name!r}")
    both = set(thing.thresholds) & set(other.thresholds)
    both |= {q.name for q in thing.quantities} & {q.name for q in other.quantities}
    if both:
        raise InputError(f"the name {sorted(both)[0]!r} is one of the diagnostic {other_name!r}")
