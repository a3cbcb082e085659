"""A place in a run's course: an epoch, a step, or both."""

from __future__ import annotations

from pydantic import FiniteFloat

from walkback.protocol.schema import Record


class At(Record):
    """When something was measured; what is not known is None."""

    epoch: int | FiniteFloat | None = None
    step: int | None = None

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

    def not_after(self, other: At) -> bool:
        """Whether this comes no later than another; steps are compared where both have them, else epochs."""
        for mine, theirs in ((self.step, other.step), (self.epoch, other.epoch)):
            if mine is not None and theirs is not None:
                return mine <= theirs
        return False


def _shown(value: float) -> str:
    """Trainers count epochs in fractions, and most are whole."""
    return str(int(value) if value == int(value) else round(value, 3))
