"""When a run is lost: which firings stop it, how many in a row, and after how long a warm-up. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from walkback.errors import InputError
from walkback.protocol.diagnostics.gradient_floor import CONFIDENT
from walkback.protocol.diagnostics.known import known
from walkback.protocol.records import State
from walkback.protocol.schema import Record
from walkback.protocol.verdict import NON_FINITE
from walkback.registry import did_you_mean
from walkback.watch.moment import At, Place, no_later

CONTINUE: Literal["continue"] = "continue"
STOP: Literal["stop"] = "stop"


class Word(Protocol):
    """What a policy asks of a reading."""

    @property
    def letter(self) -> str:
        """Of the diagnostic."""

    @property
    def state(self) -> State:
        """Whether it fired."""

    @property
    def reason(self) -> str:
        """Why."""

    @property
    def case(self) -> str:
        """By which of several causes."""


class Decision(Record):
    """Whether to go on training, and why not.

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Examples:
        >>> import walkback
        >>> walkback.Decision(action="stop", reason="(a) residual stream exploded at epoch 3").stop
        True
    """

    action: Literal["continue", "stop"] = CONTINUE
    """`continue` or `stop`."""
    reason: str = ""
    """Why to stop; empty where the run goes on."""
    at: At = At()
    """The moment that was measured last."""
    first_fired: dict[str, At] = Field(default_factory=dict)
    """When each diagnostic first fired, by its letter."""
    measured: bool = True
    """Whether this call measured; else the decision is that of the last measurement, or, where one was tried and could
    not be made, to go on."""

    @property
    def stop(self) -> bool:
        """Whether to stop training."""
        return self.action == STOP


@dataclass(frozen=True)
class StopPolicy:
    """When a run is lost: a diagnostic of `stop_on` fires at `patience` measurements in a row.

    (c) is not among them by default: a healthy run can show it in its first epochs. A firing of (b) does not count
    where the network is confident, because it has fitted its data. NaN and Inf count, whichever diagnostic finds them,
    unless `stop_on` is empty.

    Raises:
        InputError: `stop_on` names no diagnostic, `patience` is below 1, or `warmup` is negative.

    Examples:
        >>> from walkback.watch.policy import StopPolicy
        >>> StopPolicy(stop_on=("a",), patience=2, warmup=1).patience
        2
    """

    stop_on: tuple[str, ...] = ("a", "b")
    """The letters of the diagnostics whose firing counts."""
    patience: int = 1
    """How many measurements in a row must fire."""
    warmup: float = 0
    """Nothing stops a run below this epoch (below this step, where no epochs are given)."""

    def __post_init__(self) -> None:
        letters = [one.letter for one in known().values()]
        for letter in self.stop_on:
            if letter not in letters:
                raise InputError(f"there is no diagnostic {letter!r} to stop on. {did_you_mean(letter, letters)}")
        if self.patience < 1:
            raise InputError(f"patience is {self.patience}; expected 1 or more measurements in a row.")
        if not self.warmup >= 0:
            raise InputError(f"warmup is {self.warmup}; expected 0 or more epochs.")

    @classmethod
    def of(cls, stop_on: str | Iterable[str], patience: int, warmup: float) -> StopPolicy:
        """Make a policy from letters in any collection: `("a", "b")`, `"ab"`.

        Args:
            stop_on: the letters.
            patience: how many measurements in a row must fire.
            warmup: the epoch below which nothing stops a run.

        Returns:
            The policy.

        Raises:
            InputError: as for `StopPolicy`.
        """
        return cls(tuple(stop_on), patience, warmup)

    def lost(self, readings: Sequence[Word]) -> dict[str, str]:
        """The firings that count towards stopping.

        Args:
            readings: of all diagnostics, at one moment.

        Returns:
            The reason of each, by the letter of its diagnostic.
        """
        if not self.stop_on:
            return {}
        fired = [r for r in readings if r.state is State.FIRE]
        return {
            r.letter: r.reason
            for r in fired
            if r.reason == NON_FINITE or (r.letter in self.stop_on and r.case != CONFIDENT)
        }


class Seen(NamedTuple):
    """Where a run stands after one measurement, in few bytes: a long run has many, and may go back to any."""

    place: Place
    in_a_row: tuple[tuple[str, int], ...]
    """How often each diagnostic that counts towards stopping has fired up to here."""
    first_fired: dict[str, At]


class Course:
    """A run as a policy sees it: measurements in their order, and what to do after each."""

    def __init__(self, policy: StopPolicy) -> None:
        self.policy = policy
        self.decision = Decision(measured=False)
        """What the last measurement came to."""
        self._seen = [Seen((None, None), (), {})]

    def see(self, at: At, readings: Sequence[Word], *, measured: bool = True) -> Decision:
        """Take in one measurement; one of an earlier moment than the last takes the run back to there.

        `measured` is False where it was tried and could not be made.
        """
        while len(self._seen) > 1 and no_later(at.place, self._seen[-1].place):
            self._seen.pop()
        lost = self.policy.lost(readings)
        before = self._seen[-1]
        counts = dict(before.in_a_row)
        in_a_row = {letter: counts.get(letter, 0) + 1 for letter in lost}
        first = before.first_fired
        new = [r.letter for r in readings if r.state is State.FIRE and r.letter not in first]
        if new:
            first = first | dict.fromkeys(new, at)
        reason = self._reason(at, lost, in_a_row)
        self._seen.append(Seen(at.place, tuple(in_a_row.items()), first))
        action = STOP if reason else CONTINUE
        self.decision = Decision(action=action, reason=reason, at=at, first_fired=first, measured=measured)
        return self.decision

    def _reason(self, at: At, lost: dict[str, str], in_a_row: dict[str, int]) -> str:
        if at.position is not None and at.position < self.policy.warmup:
            return ""
        reasons = [f"({letter}) {lost[letter]}" for letter, count in in_a_row.items() if count >= self.policy.patience]
        return f"{'; '.join(reasons)} at {at}" if reasons else ""
