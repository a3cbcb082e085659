"""What a panel is: diagnostics with roles, and the rule that makes a verdict of their readings. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from walkback.errors import InputError, WalkbackError
from walkback.protocol.panels.member import Member as Member
from walkback.protocol.panels.member import Role as Role
from walkback.protocol.records import Measurements, PanelVerdict, Reading, State
from walkback.protocol.words import NON_FINITE, Outcome
from walkback.registry import DIAGNOSTICS

MISSING = (State.NOT_MEASURED, State.UNDECIDED)


@dataclass(frozen=True)
class Panel:
    """A named list of diagnostics, and the rule that makes a verdict of their readings.

    This rule: a decider that fires fails the network. One that is required and missing makes the verdict incomplete,
    and so does a network on which no decider was measured. NaN and Inf fail it, whichever diagnostic found them. A
    panel whose verdict is made otherwise overrides `outcome_of`; one with words of its own overrides `words`.

    Examples:
        >>> import walkback
        >>> panel = walkback.Panel(
        ...     name="growth_only", title="growth alone", members=(walkback.Member("residual_growth"),)
        ... )
        >>> report = walkback.judge(walkback.Measurements(residual_norms=[8.0, 900.0], bp_grad_norms=[1e-3, 1e-3]))
        >>> panel.verdict(report.readings).words
        'fail: residual stream exploded'
    """

    name: str
    """What it is asked for by."""
    title: str
    """What its verdict is called: `the published protocol, April 2026`."""
    members: tuple[Member, ...]
    """Its diagnostics."""
    version: int = 1
    """Raised when its members, roles or rule change: verdicts of two versions are not one."""
    stops: tuple[str, ...] = ()
    """The diagnostics, by letter, that stop a run where a monitor is not told which."""
    fixed: Mapping[str, float] = field(default_factory=dict)
    """Thresholds, by name, that it judges by whatever else is set: what is known of it was measured with these."""
    cites: str = ""
    """Where its diagnostics and thresholds are defined, in a sentence that a paper can take; its title where empty."""

    def member(self, letter: str) -> Member | None:
        """The member with a diagnostic.

        Args:
            letter: of the diagnostic.

        Returns:
            The member; None where the panel does not name it.
        """
        return next((member for member in self.members if member.letter == letter), None)

    def label(self, letter: str) -> str:
        """What the panel calls a diagnostic.

        Args:
            letter: of the diagnostic.

        Returns:
            `(a)`, or a label of its own such as `D1`.
        """
        member = self.member(letter)
        return member.label if member is not None and member.label else f"({letter})"

    def verdict(
        self, readings: Iterable[Reading], require_all: bool = False, measured: Measurements | None = None
    ) -> PanelVerdict:
        """The verdict on one network.

        Args:
            readings: of all diagnostics. Those of no member count only where NaN or Inf fired.
            require_all: True makes the verdict `incomplete` where a decider was not measured.
            measured: the measurements behind the readings. Where they are given, what there is to say beside the
                verdict is said on them.

        Returns:
            Outcome, words, and the letters behind them.
        """
        found = {reading.letter: reading for reading in readings}
        members = {member.letter: member for member in self.members}
        alone = self._overruled(found)
        fired = [
            letter
            for letter, reading in found.items()
            if (reading.state is State.FIRE and reading.reason == NON_FINITE)
            or (letter in members and letter not in alone and self._fails(members[letter], reading))
        ]
        missing = [letter for letter in members if letter not in found or found[letter].state in MISSING]
        missing = [letter for letter in missing if letter not in alone]
        outcome, behind = self.outcome_of(fired, missing, members, require_all)
        if outcome == "pass":
            behind = [letter for letter in behind if letter not in found or found[letter].state is not State.FIRE]
        warned = [
            letter
            for letter, reading in found.items()
            if reading.state is State.FIRE and letter in members and members[letter].role == "warns"
        ]
        verdict = PanelVerdict(
            panel=self.name,
            version=self.version,
            outcome=outcome,
            words=self.words(outcome, [found[letter] for letter in behind if letter in found], behind),
            decided_by=tuple(behind),
            warned_by=tuple(letter for letter in warned if letter not in behind),
        )
        beside = self.beside(verdict, list(found.values()), measured) if measured is not None else {}
        return verdict.model_copy(update={"beside": beside}) if beside else verdict

    @staticmethod
    def _fails(member: Member, reading: Reading) -> bool:
        return member.role == "decides" and member.fires(reading)

    def _overruled(self, found: Mapping[str, Reading]) -> set[str]:
        """Joined members that neither fire nor are missing by themselves, because of what the others say."""
        overruled: set[str] = set()
        groups: dict[str, list[Member]] = {}
        for member in self.members:
            if member.joined:
                groups.setdefault(member.joined, []).append(member)
        for group in groups.values():
            there = {m.letter: found.get(m.letter) for m in group}
            missing = {letter for letter, r in there.items() if r is None or r.state in MISSING}
            firing = {m.letter for m in group if (r := there[m.letter]) is not None and m.fires(r)}
            if len(firing) < len(group):
                # Where none passes, what is missing would decide, and stays missing.
                overruled |= firing if len(firing) + len(missing) == len(group) else set(there)
        return overruled

    def speaks(self, readings: Sequence[Reading]) -> bool:
        """Whether a report that another panel decides on has a verdict of this one: where anything was measured.

        Args:
            readings: of all diagnostics.

        Returns:
            True where one of the members was measured.
        """
        measured = {reading.letter for reading in readings if reading.state not in MISSING}
        return any(member.letter in measured for member in self.members)

    def beside(self, verdict: PanelVerdict, readings: Sequence[Reading], measured: Measurements) -> dict[str, str]:
        """What there is to say beside a verdict; here nothing.

        Args:
            verdict: this panel's.
            readings: of all diagnostics.
            measured: the measurements behind them.

        Returns:
            A sentence each, by what it is about.
        """
        return {}

    def outcome_of(
        self, fired: Sequence[str], missing: Sequence[str], members: Mapping[str, Member], require_all: bool
    ) -> tuple[Outcome, Sequence[str]]:
        """The rule: from what fired and what is missing to an outcome.

        Args:
            fired: the letters of deciders that fired.
            missing: the letters of members that were not measured or are undecided.
            members: the members, by letter.
            require_all: whether every decider must have been measured.

        Returns:
            The outcome, and the letters behind it.
        """
        if fired:
            return "fail", fired
        deciders = [letter for letter, member in members.items() if member.role == "decides"]
        passed = [letter for letter in deciders if letter not in missing]
        lacking = [letter for letter in missing if members[letter].required or (require_all and letter in deciders)]
        if lacking or not passed:
            return "incomplete", lacking or deciders
        return "pass", passed

    def words(self, outcome: Outcome, readings: Sequence[Reading], letters: Sequence[str]) -> str:
        """The verdict in words.

        Args:
            outcome: `pass`, `fail` or `incomplete`.
            readings: those behind the outcome.
            letters: their letters, and those of what is missing.

        Returns:
            The words.
        """
        named = ", ".join(self.label(letter) for letter in letters)
        if outcome == "fail":
            return f"fail: {'; '.join(reasons(readings))}"
        return f"incomplete: {named} not measured" if outcome == "incomplete" else f"pass on {named}"

    def qualified(self, verdict: PanelVerdict, readings: Sequence[Reading]) -> str:
        """The verdict with what it rests on, as the first line of a report has it.

        Args:
            verdict: of this panel.
            readings: of all diagnostics.

        Returns:
            The words, and what was not measured.
        """
        gaps = self.gaps(readings)
        shown = verdict.words if verdict.outcome == "incomplete" or not gaps else f"{verdict.words} [{gaps}]"
        return f"{shown} ({self.name})"

    def short(self, outcome: Outcome) -> str:
        """An outcome in a word, for a table.

        Args:
            outcome: `pass`, `fail` or `incomplete`.

        Returns:
            The word, such as `walk-back`.
        """
        return outcome

    def said(self, outcome: Outcome) -> str:
        """An outcome as what a method does, for a sentence on many networks.

        Args:
            outcome: `pass`, `fail` or `incomplete`.

        Returns:
            The words, such as `needs walk-back`.
        """
        return {"pass": "passes", "fail": "fails", "incomplete": "is incomplete"}[outcome]

    def gaps(self, readings: Sequence[Reading]) -> str:
        """What was not measured, and what was not decided.

        Args:
            readings: of all diagnostics.

        Returns:
            In words: `(c), (d) not measured`; empty where nothing is missing.
        """
        named = [reading for reading in readings if self.member(reading.letter) is not None]
        return gaps_in_words(named, self.label)


def reasons(readings: Sequence[Reading]) -> list[str]:
    """Why the readings fired, each reason once; NaN and Inf come first."""
    return sorted(dict.fromkeys(r.reason for r in readings), key=lambda reason: reason != NON_FINITE)


def gaps_in_words(readings: Sequence[Reading], label: Any = lambda letter: f"({letter})") -> str:
    """`(c), (d) not measured, (a) undecided`; empty where nothing is missing."""
    words = {State.NOT_MEASURED: "not measured", State.UNDECIDED: "undecided"}
    parts = []
    for state, word in words.items():
        letters = ", ".join(label(r.letter) for r in readings if r.state is state)
        if letters:
            parts.append(f"{letters} {word}")
    return ", ".join(parts)


def check_panel(name: str, thing: Any) -> None:
    """Refuse what is no panel, or names diagnostics that are not there."""
    if not isinstance(thing, Panel):
        raise InputError(f"the panel {name!r} is {thing!r}; expected a walkback.Panel")
    if name != thing.name and ":" not in name:
        raise InputError(f"the panel {name!r} calls itself {thing.name!r}; expected one name")
    if not any(member.role == "decides" for member in thing.members):
        raise InputError(f"the panel {name!r} has no diagnostic that decides")
    for member in thing.members:
        try:
            DIAGNOSTICS.named(member.diagnostic)
        except WalkbackError as error:
            raise InputError(f"the panel {name!r}: {error}") from None
