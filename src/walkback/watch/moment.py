"""A place in a run's course: an epoch, a step, or both."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, FiniteFloat

from walkback.protocol.schema import Record

Place = tuple[float | None, int | None]
"""An epoch and a step, either of which may be unknown."""


def no_later(mine: Place, theirs: Place) -> bool:
    """Whether one place comes no later than another; steps are compared where both have them, else epochs."""
    for one, other in ((mine[1], theirs[1]), (mine[0], theirs[0])):
        if one is not None and other is not None:
            return one <= other
    return False


Count = Annotated[int, Field(ge=-(2**53), le=2**53)]
"""A whole number that a float can hold: places are drawn."""


class At(Record):
    """When something was measured: an epoch, a step, or both. What is not known is None."""

    epoch: Count | FiniteFloat | None = None
    """Which epoch; trainers count some in fractions."""
    step: Count | None = None
    """Which training step."""

    def __str__(self) -> str:
        parts = [
            f"{name} {_shown(value)}"
            for name, value in (("epoch", self.epoch), ("step", self.step))
            if value is not None
        ]
        return ", ".join(parts) or "an unnumbered measurement"

    @property
    def position(self) -> float | None:
        """The epoch, or where there is none the step: what warm-up and savings are counted in."""
        return self.epoch if self.epoch is not None else self.step

    @property
    def place(self) -> Place:
        """Both numbers, as they are kept where there are many."""
        return self.epoch, self.step

    def not_after(self, other: At) -> bool:
        """Whether this comes no later than another; by steps where both have them, else by epochs.

        Args:
            other: the other moment.

        Returns:
            False where the two have nothing to compare by.
        """
        return no_later(self.place, other.place)


def _shown(value: float) -> str:
    """Trainers count epochs in fractions, and most are whole."""
    return str(int(value) if value == int(value) else round(value, 3))
