"""What builds the readings of a diagnostic: each state is worded in one place. No torch."""

from __future__ import annotations

from typing import Any

from walkback.protocol.diagnostics.declare import Comparison
from walkback.protocol.records import Interval, Reading, State
from walkback.protocol.words import NON_FINITE
from walkback.strictness import about_to_compare


class ReadingMaker:
    """Builds the readings of one diagnostic, so that each state is worded in one place. See `Diagnostic.reading_maker`.

    Args:
        letter: of the diagnostic.
        name: what the reading is called.
        comparison: on which side of the threshold it fires; None where nothing is judged.
        threshold: where it fires; None where nothing is judged.
        unit: of the value.
    """

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
        """Whether a value lies on the side of the threshold that fires. NaN never does.

        Args:
            value: to compare.

        Returns:
            False where there is no threshold.
        """
        if self.threshold is None:
            return False
        return value > self.threshold if self.comparison == ">" else value < self.threshold

    def not_measured(self, why: str) -> Reading:
        """There is nothing to judge.

        Args:
            why: as a sentence.

        Returns:
            A reading with the state NOT_MEASURED.
        """
        return Reading(**self._common, state=State.NOT_MEASURED, sentence=why)

    def reported(self, value: float | None, sentence: str) -> Reading:
        """A value of a diagnostic that never fires.

        Args:
            value: what was measured.
            sentence: what it means.

        Returns:
            A reading with the state REPORTED.
        """
        return Reading(**self._common, state=State.REPORTED, value=value, sentence=sentence)

    def undecided(self, value: float | None, why: str) -> Reading:
        """A value that cannot be judged.

        Args:
            value: what was measured; None where that is nothing.
            why: what is missing, as a sentence.

        Returns:
            A reading with the state UNDECIDED.
        """
        return Reading(**self._common, state=State.UNDECIDED, value=value, sentence=why)

    def non_finite(self, what: str, value: float | None = None, site: int | None = None) -> Reading:
        """NaN or Inf. It compares false with every threshold, and must never count as trustworthy.

        Args:
            what: what is NaN or Inf, in words.
            value: NaN or Inf itself; None where many are.
            site: where.

        Returns:
            A reading with the state FIRE.

        Raises:
            PitfallError: under `walkback.strict()`.
        """
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
        """A value, judged: FIRE where it crosses the threshold, else PASS.

        Args:
            value: what was measured.
            reason: what a firing adds to the verdict.
            fired: the sentence of a reading that fires.
            passed: the sentence of one that passes.
            interval: of the value; the reading is fragile where it crosses the threshold.
            site: the site that decides, where one does.
            case: which of several causes a firing has.

        Returns:
            The reading.

        Raises:
            PitfallError: under `walkback.strict()`, the value is NaN.
        """
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
