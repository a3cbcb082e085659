"""What builds the readings of a diagnostic: each state is worded in one place. No torch."""

from __future__ import annotations

from typing import Any

from walkback.protocol.diagnostics.declare import Comparison
from walkback.protocol.records import Interval, Reading, State
from walkback.protocol.words import NON_FINITE
from walkback.strictness import about_to_compare


class ReadingMaker:
    """Builds the readings of one diagnostic, so that each state is worded in one place."""

    def __init__(
        self, letter: str, name: str, comparison: Comparison | None, threshold: float | None, unit: str = ""
    ) -> None:
        self.comparison, self.threshold = comparison, threshold
        self._common: dict[str, Any] = {
            "letter": letter, "name": name, "comparison": comparison, "threshold": threshold, "unit": unit,
        }  # fmt: skip
        limit = "none given" if threshold is None else f"{comparison} {threshold:g}"
        self.rule = f"the threshold of ({letter}) {name}, {limit}"

    def crosses(self, value: float) -> bool:
        """Whether a value lies on the side of the threshold that fires; NaN never does."""
        if self.threshold is None:
            return False
        return value > self.threshold if self.comparison == ">" else value < self.threshold

    def not_measured(self, why: str) -> Reading:
        """Nothing to judge, and why."""
        return Reading(**self._common, state=State.NOT_MEASURED, sentence=why)

    def reported(self, value: float | None, sentence: str) -> Reading:
        """Measured, by a diagnostic that never fires."""
        return Reading(**self._common, state=State.REPORTED, value=value, sentence=sentence)

    def undecided(self, value: float | None, why: str) -> Reading:
        """A value that nothing is there to judge by, and what is missing."""
        return Reading(**self._common, state=State.UNDECIDED, value=value, sentence=why)

    def non_finite(self, what: str, value: float | None = None, site: int | None = None) -> Reading:
        """NaN or Inf: it compares false with every threshold, and must never come out trustworthy."""
        about_to_compare(value if value is not None else float("nan"), self.rule)
        sentence = f"{what}: the network has diverged, and no other value of it means anything."
        return Reading(**self._common, state=State.FIRE, value=value, site=site, reason=NON_FINITE, sentence=sentence)

    def judged(
        self,
        value: float,
        *,
        reason: str,
        fired: str,
        passed: str,
        interval: Interval | None = None,
        site: int | None = None,
        case: str = "",
    ) -> Reading:
        """FIRE where the value crosses the threshold, PASS where not, fragile where the interval does both."""
        about_to_compare(value, self.rule)
        fires = self.crosses(value)
        fragile = interval is not None and self.crosses(interval.low) != self.crosses(interval.high)
        return Reading(
            **self._common,
            state=State.FIRE if fires else State.PASS,
            value=value,
            site=site,
            interval=interval,
            fragile=fragile,
            reason=reason if fires else "",
            case=case if fires else "",
            sentence=fired if fires else passed,
        )
