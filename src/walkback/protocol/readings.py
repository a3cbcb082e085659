"""What diagnostics and panels say: states, readings, verdicts, and the intervals that they rest on. No torch."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import AliasChoices, Field

from walkback.protocol.schema import Number, Record
from walkback.protocol.words import Letter, Outcome, Unit


class State(str, Enum):
    """What a reading says. Not measured is not passed.

    Examples:
        >>> import walkback
        >>> walkback.State.FIRE.value
        'FIRE'
    """

    PASS = "PASS"
    """Measured, and the value does not cross the threshold."""
    FIRE = "FIRE"
    """Measured, and the value crosses the threshold; or it is NaN or Inf."""
    NOT_MEASURED = "NOT_MEASURED"
    """There is no value."""
    UNDECIDED = "UNDECIDED"
    """What is known does not settle it."""
    REPORTED = "REPORTED"
    """Measured, by a diagnostic that never fires."""


class Interval(Record):
    """A confidence interval and how it was made."""

    low: Number
    """The lower bound."""
    high: Number
    """The upper bound."""
    level: Number
    """The confidence level, such as 0.95."""
    how: str
    """How it was made, in words."""

    def contains(self, value: float) -> bool:
        """Whether a value lies inside, bounds included.

        Args:
            value: in the unit of the bounds.

        Returns:
            True or False.
        """
        return self.low <= value <= self.high


class Reading(Record):
    """What one diagnostic says of one network.

    It fires where `value comparison threshold` holds, for example 112.5 > 50.

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Examples:
        >>> import walkback
        >>> report = walkback.judge(walkback.Measurements(residual_norms=[8.0, 900.0], bp_grad_norms=[1e-3, 1e-3]))
        >>> reading = report.reading("a")
        >>> reading.state.name, reading.value, reading.comparison, reading.threshold
        ('FIRE', 112.5, '>', 50.0)
    """

    letter: Letter
    """The letter of the diagnostic: (a) … (d) are those of the published protocol."""
    name: str
    """The title of the diagnostic."""
    state: State
    """What it says."""
    value: Number | None = Field(None, validation_alias=AliasChoices("value", "figure"))
    """What was measured, as one number; records of 0.1 call it `figure`."""
    unit: Unit = ""
    """The unit of the value; empty where it has none."""
    comparison: Literal[">", "<"] | None = None
    """On which side of the threshold it fires; None where nothing is judged."""
    threshold: Number | None = None
    """Where it fires."""
    site: int | None = None
    """The site that decides, where one does."""
    interval: Interval | None = None
    """The interval of the value; None where there is none."""
    fragile: bool = False
    """True where the interval crosses the threshold: another sample could read the other way."""
    reason: str = ""
    """What a firing adds to the verdict."""
    case: str = ""
    """Which of several causes a firing has, where the diagnostic can tell them apart."""
    sentence: str = ""
    """What this reading means, for a reader who does not know the protocol."""


class PanelVerdict(Record):
    """What a panel makes of the readings."""

    panel: str
    """The name of the panel."""
    version: int
    """The version of its rule."""
    outcome: Outcome
    """`pass`, `fail` or `incomplete`."""
    words: str
    """The verdict in the panel's own words, such as `needs walk-back: …` or `FAIL(D1+D2)`."""
    decided_by: tuple[str, ...] = ()
    """The letters behind the outcome: of what fired, of what is missing, or of all that passed."""
    warned_by: tuple[str, ...] = ()
    """The letters that fired and, in this panel, warn only."""
    beside: dict[str, str] = Field(default_factory=dict)
    """What the panel says beside it, a sentence each, by what it is about, such as `error rates`."""


class StoredVerdict(Record):
    """What a record said of itself, where its measurements come to something else when they are judged again."""

    verdict: str
    """The verdict that the record holds."""
    version: str = ""
    """The walkback that stored it; empty where the record does not say."""
    differs: tuple[str, ...] = ()
    """Which readings differ: `(a) PASS there, FIRE here`."""
