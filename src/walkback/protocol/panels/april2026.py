"""The panel of April 2026: the published four, in the published words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walkback.protocol.panels.base import Member, Panel, gaps_in_words, reasons
from walkback.protocol.records import PanelVerdict, Reading, State
from walkback.protocol.words import INCOMPLETE, PUBLISHED_PANEL, TRUSTWORTHY, WALK_BACK, Outcome
from walkback.source import PAPER, REPOSITORIES


class April2026(Panel):
    """Any of the four that fires walks a result back.

    Without (a) and (b) there is nothing to judge; other gaps make a verdict incomplete only where all four are
    required. A firing outranks `incomplete`.
    """

    def outcome_of(
        self, fired: Sequence[str], missing: Sequence[str], members: Mapping[str, Member], require_all: bool
    ) -> tuple[Outcome, Sequence[str]]:
        """The published rule."""
        if fired:
            return "fail", fired
        if missing and (require_all or {"a", "b"} <= set(missing)):
            return "incomplete", missing
        return "pass", [letter for letter in members if letter not in missing]

    def words(self, outcome: Outcome, readings: Sequence[Reading], letters: Sequence[str]) -> str:
        """`trustworthy`, `needs walk-back: ` and the reasons, or `incomplete: ` and what is missing."""
        if outcome == "fail":
            return WALK_BACK + "; ".join(reasons(readings))
        return INCOMPLETE + gaps_in_words(readings) if outcome == "incomplete" else TRUSTWORTHY

    def short(self, outcome: Outcome) -> str:
        """`trustworthy`, `walk-back` or `incomplete`."""
        return {"pass": TRUSTWORTHY, "fail": "walk-back"}.get(outcome, outcome)

    def said(self, outcome: Outcome) -> str:
        """The same as what a method does."""
        return {"pass": f"is {TRUSTWORTHY}", "fail": "needs walk-back"}.get(outcome, f"is {outcome}")

    def qualified(self, verdict: PanelVerdict, readings: Sequence[Reading]) -> str:
        """The verdict with what it rests on: `trustworthy on (a), (b), (c); (d) not measured`."""
        gaps = self.gaps(readings)
        if verdict.outcome == "pass":
            passed = [r.letter for r in readings if r.state is State.PASS and self.member(r.letter) is not None]
            return f"{verdict.words} on {', '.join(f'({letter})' for letter in passed)}" + (f"; {gaps}" if gaps else "")
        return verdict.words if verdict.outcome == "incomplete" or not gaps else f"{verdict.words} [{gaps}]"


APRIL_2026 = April2026(
    name=PUBLISHED_PANEL,
    title="the published protocol, April 2026",
    members=(
        Member("residual_growth"),
        Member("gradient_floor"),
        Member("direction_drift"),
        Member("frozen_margin"),
    ),
    stops=("a", "b"),
    cites=(
        "The diagnostics (a) to (d) and their thresholds are the April 2026 edition of the protocol of "
        f"{PAPER}; {REPOSITORIES}."
    ),
)
