"""A claim: its sentence, its published figure, the rule it is decided by, and what the results make of it.

`reproduced` is the whole claim, on every seed, figures within the tolerance that the rule states; `partly` is some of
the seeds, methods or figures; a claim that the results contradict is `not reproduced`; one whose results are not all
there, whether a seed, a baseline or an audit, is `not run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from walkback.errors import RecordError
from walkback.lab.evidence.results import NotOnRecordError, Results

MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration)
"""What a claim trips over where an answer of a study is not what it should be."""
ACCURACY_TOLERANCE = 0.03
COSINE_TOLERANCE = 0.05
SCALE_FACTOR = 10.0
"""Norms agree where they are of one order of magnitude."""


class Status(str, Enum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    NOT_RUN = "not run"


class Outcome(NamedTuple):
    """A status, the figures it rests on, and which parts of the claim hold and which do not."""

    status: Status
    measured: str
    holds: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()


class Decided(NamedTuple):
    """A claim with what the results say of it."""

    claim: Claim
    outcome: Outcome
    sources: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...] = ()
    """The rows of audits that it is about: label, seed and the run's id."""

    @property
    def status(self) -> Status:
        """What became of it."""
        return self.outcome.status

    @property
    def measured(self) -> str:
        """The figures that it rests on; of a claim that was not run, what is missing."""
        return self.outcome.measured


@dataclass(frozen=True)
class Claim:
    """One row of the table."""

    id: str
    sentence: str
    published: str
    rule: str
    """How it is decided, as a reader is told."""
    command: str
    """What makes the results that it is decided from."""
    decide: Callable[[Results], Outcome]
    fitted: str = ""
    """Which published figures were used to choose a reading where the source is silent; those cannot test it."""

    @property
    def is_finding(self) -> bool:
        """Whether it is a finding of this project, and not a published claim."""
        return self.id.startswith("N")

    def decided(self, results: Results) -> Decided:
        """What the results say; `not run` where they are not there."""
        reader = results.reader()
        try:
            outcome = self.decide(reader)
        except NotOnRecordError as error:
            outcome = Outcome(Status.NOT_RUN, str(error))
        except MALFORMED as error:
            read = ", ".join(reader.sources)
            raise RecordError(
                f"{self.id} cannot be decided from {read}: {type(error).__name__} {error}. "
                f"Make it again with: {self.command}"
            ) from error
        return Decided(self, outcome, tuple(reader.sources), tuple(reader.rows_asked()))


def by_cases(agree: Sequence[bool], figures: Sequence[bool] = ()) -> Status:
    """Reproduced where every case agrees and every figure is near; not where no case agrees; else partly."""
    if not any(agree):
        return Status.NOT_REPRODUCED
    return Status.REPRODUCED if all(agree) and all(figures) else Status.PARTLY


Parts = Mapping[str, Sequence[bool]]
"""What a rule asks, in words, and whether it holds on each network, or of the one figure that it is about."""


def weighed(
    measured: str, cases: Parts, figures: Parts = MappingProxyType({}), status: Status | None = None
) -> Outcome:
    """An outcome that says which half of the claim holds; by `by_cases`, unless the rule has a status of its own."""
    parts = {what: found for what, found in (*cases.items(), *figures.items()) if found}
    of_each = [[one for found in group.values() for one in found] for group in (cases, figures)]
    holds = tuple(_counted(what, found) for what, found in parts.items() if all(found))
    fails = tuple(_counted(what, found) for what, found in parts.items() if not all(found))
    return Outcome(status or by_cases(*of_each), measured, holds, fails)


def _counted(what: str, found: Sequence[bool]) -> str:
    """`(a) fires (2 of 3)`, or the words alone where there is one thing to count."""
    return what if len(found) == 1 else f"{what} ({sum(found)} of {len(found)})"


def near(value: float | None, low: float, high: float, tolerance: float = ACCURACY_TOLERANCE) -> bool:
    """Whether a value lies in a published range, or beyond it by no more than the tolerance."""
    return value is not None and low - tolerance <= value <= high + tolerance


def same_scale(value: float | None, low: float, high: float, factor: float = SCALE_FACTOR) -> bool:
    """Whether a value lies in a published range, or beyond it by no more than the factor."""
    return value is not None and low / factor <= value <= high * factor
