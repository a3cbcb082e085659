"""What diagnostics and panels say: states, readings, verdicts, and the intervals that they rest on. No torch."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import AliasChoices, Field

from walkback.protocol.schema import Number, Record
from walkback.protocol.words import Letter, Outcome, Unit


class State(str, Enum):
    """What a reading says. Not measured is not passed."""

    PASS = "PASS"
    FIRE = "FIRE"
    NOT_MEASURED = "NOT_MEASURED"
    UNDECIDED = "UNDECIDED"
    REPORTED = "REPORTED"
    """Measured, by a diagnostic that never fires."""


class Interval(Record):
    """A confidence interval and how it was made."""

    low: Number
    high: Number
    level: Number
    how: str

    def contains(self, value: float) -> bool:
        """Whether the value lies inside, bounds included."""
        return self.low <= value <= self.high


class Reading(Record):
    """One diagnostic's word on one network."""

    letter: Letter
    """Of the diagnostic: (a) … (d) are those of the published protocol."""
    name: str
    state: State
    value: Number | None = Field(None, validation_alias=AliasChoices("value", "figure"))
    """What was measured, as one number; records of 0.1 call it `figure`."""
    unit: Unit = ""
    comparison: Literal[">", "<"] | None = None
    """The reading fires when `value comparison threshold` holds."""
    threshold: Number | None = None
    site: int | None = None
    """The site that decides, where one does."""
    interval: Interval | None = None
    fragile: bool = False
    """The interval crosses the threshold: another sample could read the other way."""
    reason: str = ""
    """What a firing adds to the verdict."""
    case: str = ""
    """Which of several causes a firing has, where the diagnostic can tell them apart."""
    sentence: str = ""
    """What this reading means, for a reader who does not know the protocol."""


class PanelVerdict(Record):
    """What a panel makes of the readings."""

    panel: str
    version: int
    outcome: Outcome
    words: str
    """In the panel's own words, such as `needs walk-back: …` or `FAIL(D1+D2)`."""
    decided_by: tuple[str, ...] = ()
    """The letters behind the outcome: of what fired, of what is missing, or of all that passed."""
    warned_by: tuple[str, ...] = ()
    """The letters that fired and, in this panel, warn only."""
    beside: dict[str, str] = Field(default_factory=dict)
    """What the panel says beside it, a sentence each, by what it is about, such as `error rates`."""


class StoredVerdict(Record):
    """What a record said of itself, where its measurements come to something else when they are judged again."""

    verdict: str
    version: str = ""
    """Of the walkback that stored it; empty where the record does not say."""
    differs: tuple[str, ...] = ()
    """In which readings: `(a) PASS there, FIRE here`."""
