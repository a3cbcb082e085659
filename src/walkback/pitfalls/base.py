"""What a pitfall is, and what its reproducer shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from walkback.addresses import require_call
from walkback.errors import InputError
from walkback.lint import RULES


class Row(NamedTuple):
    """One quantity: as the wrong code gives it, as it is, and the published figure if there is one."""

    what: str
    wrong: str
    right: str
    published: str = ""


class Claim(NamedTuple):
    """A sentence that the figures must bear out, and whether they did."""

    sentence: str
    holds: bool


@dataclass(frozen=True)
class Reproduction:
    """What a reproducer found when it was run."""

    setup: str
    """What was run, so that the figures can be placed."""
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        """Whether the pitfall still shows all that it claims."""
        return bool(self.claims) and all(claim.holds for claim in self.claims)


@dataclass(frozen=True)
class Pitfall:
    """One way in which evaluation code goes wrong."""

    number: int | str
    """From 1 for those of walkback; that of a package has its name here, such as `exact_rank`."""
    title: str
    explanation: str
    """What goes wrong, and why nobody notices."""
    lies: str
    """The line that lies."""
    instead: str
    """The line to write."""
    question: str
    """What a checklist asks; yes is the right answer."""
    avoided: str
    """How walkback avoids it."""
    where: str
    """The place that does, as `module:object`."""
    reproduce: Callable[[], Reproduction] = field(repr=False)
    published: str = ""
    """The published figure, in its own words; empty where there is none."""
    also_found_by: tuple[str, ...] = ()
    """The codes of lint rules that find it too, and name another pitfall as theirs."""

    @property
    def codes(self) -> tuple[str, ...]:
        """The lint rules that find it in source code."""
        rules = (rule for _, rule in RULES.loaded())
        return tuple(r.code for r in rules if r.pitfall == self.number or r.code in self.also_found_by)


def check_pitfall(name: str, thing: Any) -> None:
    """Refuse what is no pitfall, or is called otherwise than it is known by."""
    if not isinstance(thing, Pitfall):
        raise InputError(f"the pitfall {name!r} is {thing!r}; expected a walkback.pitfalls.base.Pitfall")
    if ":" not in name and str(thing.number) != name:
        raise InputError(f"the pitfall {name!r} calls itself {thing.number!r}; expected one name for both")
    what = f"the reproducer of the pitfall {name!r}"
    require_call(what, thing.reproduce, 0, "a function that returns a Reproduction")
