"""When a run is lost: which firings stop it, how many in a row, and after how long a warm-up. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field

from walkback.errors import InputError
from walkback.protocol.diagnostics.gradient_floor import CONFIDENT
from walkback.protocol.records import Reading, State
from walkback.protocol.schema import Record
from walkback.protocol.verdict import NON_FINITE
from walkback.registry import DIAGNOSTICS, did_you_mean
from walkback.watch.moment import At

CONTINUE: Literal["continue"] = "continue"
STOP: Literal["stop"] = "stop"


class Decision(Record):
    """Whether to go on training, and why not."""

    action: Literal["continue", "stop"] = CONTINUE
    reason: str = ""
    """Why to stop; empty where the run goes on."""
    at: At = At()
    """The moment that was measured last."""
    first_fired: dict[str, At] = Field(default_factory=dict)
    """When each diagnostic first fired, by its letter."""
    measured: bool = True
    """Whether this call measured; else the decision is that of the last measurement."""

    @property
    def stop(self) -> bool:
        """Whether to stop."""
        return self.action == STOP


@dataclass(frozen=True)
class StopPolicy:
    """Stop where a diagnostic of `stop_on` fires at `patience` measurements in a row.

    (c) is not among them by default: a healthy BP run can show it in its first epochs. A firing of (b) because the
    network is confident, which is a network that has fitted its data, is no reason either. NaN and Inf are, whichever
    diagnostic finds them, unless `stop_on` is empty. Nothing stops a run at an epoch (where none is given: a step)
    below `warmup`.
    """

    stop_on: tuple[str, ...] = ("a", "b")
    patience: int = 1
    warmup: float = 0

    def __post_init__(self) -> None:
        known = [DIAGNOSTICS.load(name).letter for name in DIAGNOSTICS]
        for letter in self.stop_on:
            if letter not in known:
                raise InputError(f"stop_on names a diagnostic {letter!r}. {did_you_mean(letter, known)}")
        if self.patience < 1:
            raise InputError(f"patience is {self.patience}; expected 1 or more measurements in a row.")
        if not self.warmup >= 0:
            raise InputError(f"warmup is {self.warmup}; expected 0 or more epochs.")

    @classmethod
    def of(cls, stop_on: str | Iterable[str], patience: int, warmup: float) -> StopPolicy:
        """A policy from letters in any collection: `("a", "b")`, `"ab"`."""
        return cls(tuple(stop_on), patience, warmup)

    def lost(self, readings: Sequence[Reading]) -> dict[str, str]:
        """The firings that count towards stopping: letter → reason."""
        if not self.stop_on:
            return {}
        fired = [r for r in readings if r.state is State.FIRE]
        return {
            r.letter: r.reason
            for r in fired
            if r.reason == NON_FINITE or (r.letter in self.stop_on and r.case != CONFIDENT)
        }


class Seen(NamedTuple):
    """What one measurement said, as much of it as later decisions need."""

    at: At
    fired: tuple[str, ...]
    lost: dict[str, str]


class Course:
    """A run as a policy sees it: measurements in their order, and what to do after each."""

    def __init__(self, policy: StopPolicy) -> None:
        self.policy = policy
        self.decision = Decision(measured=False)
        self._seen: list[Seen] = []
        self._in_a_row: dict[str, int] = {}

    def see(self, at: At, readings: Sequence[Reading]) -> Decision:
        """Take in one measurement; one of an earlier moment than the last takes the run back to there."""
        fired = tuple(r.letter for r in readings if r.state is State.FIRE)
        seen = Seen(at, fired, self.policy.lost(readings))
        if self._seen and at.not_after(self._seen[-1].at):
            self._go_back(at)
        return self._take(seen)

    def _go_back(self, at: At) -> None:
        kept = self._seen
        while kept and at.not_after(kept[-1].at):
            kept.pop()
        self._seen, self._in_a_row, self.decision = [], {}, Decision(measured=False)
        for seen in kept:
            self._take(seen)

    def _take(self, seen: Seen) -> Decision:
        self._seen.append(seen)
        self._in_a_row = {letter: self._in_a_row.get(letter, 0) + 1 for letter in seen.lost}
        first = self.decision.first_fired
        first = first | {letter: seen.at for letter in seen.fired if letter not in first}
        reason = self._reason(seen)
        self.decision = Decision(action=STOP if reason else CONTINUE, reason=reason, at=seen.at, first_fired=first)
        return self.decision

    def _reason(self, seen: Seen) -> str:
        position = seen.at.position
        if position is not None and position < self.policy.warmup:
            return ""
        due = [letter for letter, count in self._in_a_row.items() if count >= self.policy.patience]
        reasons = dict.fromkeys(f"({letter}) {seen.lost[letter]}" for letter in due)
        return f"{'; '.join(reasons)} at {seen.at}" if reasons else ""
