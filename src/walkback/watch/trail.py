"""A run over time in few bytes a moment: the figures that a course is drawn by, and what each reading said. No torch.

A trace may have hundreds of thousands of lines. A judged report of each would take gigabytes; what pictures, first
firings and the question of when to stop need is a few hundred bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from walkback.protocol.diagnostics.declare import Scalar
from walkback.protocol.diagnostics.known import scalars
from walkback.protocol.records import Measurements, Reading, State
from walkback.watch.moment import At, Place, no_later
from walkback.watch.policy import Course, Decision, StopPolicy

ACCURACY, SECONDS = "accuracy", "seconds"
"""The series that no diagnostic has to declare."""


def timed_scalars() -> dict[str, tuple[str, Scalar]]:
    """The scalars that a course is drawn by, by name: those of every diagnostic, with its letter."""
    return {name: (one.letter, scalar) for name, (one, scalar) in scalars().items() if scalar.timed}


def _value(scalar: Scalar, measured: Measurements, value: float | None) -> float | None:
    value = scalar.read(measured, value)
    return scalar.partly(measured) if value is None and scalar.partly is not None else value


class Sign(NamedTuple):
    """What a reading says, without its figures: the same few come again and again."""

    letter: str
    state: State
    reason: str
    case: str
    measured: bool


class Moment(NamedTuple):
    """One measured moment of a run."""

    at: At
    fired: tuple[str, ...]
    """The letters of the diagnostics that fire."""


class Column:
    """Numbers that may be missing, nine bytes each."""

    def __init__(self) -> None:
        self._values, self._known = array("d"), array("b")

    def values(self) -> list[float | None]:
        """All of them."""
        return [value if known else None for value, known in zip(self._values, self._known, strict=True)]

    def append(self, value: float | None) -> None:
        """Add one."""
        self._values.append(0.0 if value is None else value)
        self._known.append(value is not None)

    def pop(self) -> None:
        """Take the last one away."""
        self._values.pop()
        self._known.pop()


class Trail:
    """The moments of a run in their order; one of an earlier moment than the last takes the run back to there.

    Args:
        policy: when a run would have been stopped.
        goes_back: whether a moment replaces those of the same or a later one, as in a trace; else all stay.
    """

    def __init__(self, policy: StopPolicy | None = None, *, goes_back: bool = True) -> None:
        self.course = Course(policy or StopPolicy())
        self.last: Measurements | None = None
        """What was measured last."""
        self.why_unmeasured = ""
        """The reason that the last moment without a measurement gave, where one gave any."""
        self.stop: tuple[int, Decision] | None = None
        """The moment at which the policy would have stopped the run."""
        self._goes_back = goes_back
        self._places: list[Place] = []
        self._scalars = timed_scalars()
        self._columns = {name: Column() for name in (*self._scalars, ACCURACY, SECONDS)}
        self._kinds: array[int] = array("L")
        self._signs: dict[tuple[Sign, ...], int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> Moment:
        return Moment(self.at(number), self.fired_letters()[self._kinds[number]])

    def add(
        self,
        at: At,
        measured: Measurements,
        readings: Sequence[Reading],
        seconds: float | None = None,
        unmeasured: str = "",
    ) -> None:
        """Take in the next moment, and the reason where nothing was measured at it."""
        self.why_unmeasured = unmeasured or self.why_unmeasured
        while self._goes_back and self._places and no_later(at.place, self._places[-1]):
            self._pop()
        read = {reading.letter: reading.value for reading in readings}
        for name, (letter, scalar) in self._scalars.items():
            self._columns[name].append(_value(scalar, measured, read.get(letter)))
        self._columns[ACCURACY].append(measured.headline_acc)
        self._columns[SECONDS].append(seconds)
        signs = tuple(Sign(r.letter, r.state, r.reason, r.case, r.value is not None) for r in readings)
        self._kinds.append(self._signs.setdefault(signs, len(self._signs)))
        self._places.append(at.place)
        self.last = measured
        decision = self.course.see(at, signs)
        if decision.stop and self.stop is None:
            self.stop = len(self) - 1, decision

    def _pop(self) -> None:
        self._places.pop()
        self._kinds.pop()
        for column in self._columns.values():
            column.pop()
        if self.stop is not None and self.stop[0] >= len(self):
            self.stop = None

    def at(self, number: int) -> At:
        """The moment with that number."""
        epoch, step = self._places[number]
        return At.model_construct(epoch=epoch, step=step)

    def series(self, name: str) -> list[float | None]:
        """One value at every moment: a name of `scalars()`, `accuracy` or `seconds`."""
        if name not in self._columns and name in timed_scalars():
            # Of a diagnostic that came after this course.
            return [None] * len(self)
        return self._columns[name].values()

    def positions(self) -> list[float]:
        """The epochs of the moments; where there are none the steps, or the count."""
        places = ((epoch if epoch is not None else step) for epoch, step in self._places)
        return [float(i) if place is None else float(place) for i, place in enumerate(places)]

    def fired(self, letter: str) -> list[bool]:
        """Whether a diagnostic fires, at every moment."""
        fires = [letter in letters for letters in self.fired_letters()]
        return [fires[kind] for kind in self._kinds]

    def fired_letters(self) -> list[tuple[str, ...]]:
        """The letters that fire, for each combination of readings that was seen."""
        return [tuple(s.letter for s in signs if s.state is State.FIRE) for signs in self._signs]

    @property
    def measured_letters(self) -> set[str]:
        """The diagnostics that had a value at any moment."""
        seen = set(self._kinds)
        return {s.letter for signs, kind in self._signs.items() if kind in seen for s in signs if s.measured}

    def unmeasured(self) -> list[bool]:
        """Whether nothing that is judged was measured, at every moment."""
        judged = (State.PASS, State.FIRE, State.UNDECIDED)
        empty = [not any(s.state in judged for s in signs) for signs in self._signs]
        return [empty[kind] for kind in self._kinds]

    @property
    def counts_epochs(self) -> bool:
        """Whether any moment has an epoch."""
        return any(epoch is not None for epoch, _ in self._places)
