"""The thresholds of `calibrated`, by the rule that was written down before: results/validity/RULE.md. No torch.

It works on rows of the fit half alone, and refuses any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from walkback.errors import InputError
from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.table import Row
from walkback.protocol.diagnostics.declare import Axis
from walkback.protocol.diagnostics.known import named
from walkback.protocol.panels.calibrated import DEPTH

RARER = 20
"""How many times rarer healthy networks beyond a threshold are to be than the worst of those that were seen."""
TAIL = 10
"""The worst of so many parts of the healthy networks are the tail that it is told from."""
FROM_LOGS = ("residual_growth", "total_growth")
"""What the norms of a log are enough for: kept although others find the same, because a log has no others."""
LEAST_ADDED = 2
"""A decider finds so many networks that none before it finds."""
DIGITS = 2


@dataclass(frozen=True)
class Candidate:
    """One diagnostic, or several that are joined, and the tightest threshold that they may get."""

    diagnostics: tuple[str, ...]
    guard: float
    found_by: tuple[str, ...]
    """The words by which conditions name what is meant to find them."""
    group: str = ""
    test: bool = False
    """Whether it fires by the whole interval, at its guard."""

    @property
    def letters(self) -> tuple[str, ...]:
        """Of its diagnostics."""
        return tuple(named(name).letter for name in self.diagnostics)

    @property
    def thresholds(self) -> tuple[str, ...]:
        """The names of its thresholds, one for each diagnostic."""
        return tuple(next(iter(named(name).thresholds)) for name in self.diagnostics)

    @property
    def above(self) -> bool:
        """Whether it flags what is above."""
        return named(self.diagnostics[0]).thresholds[self.thresholds[0]].fires == ">"

    @property
    def axis(self) -> Axis:
        """Of its first threshold."""
        return named(self.diagnostics[0]).thresholds[self.thresholds[0]].axis

    def meant_for(self, fault: str) -> bool:
        """Whether a condition names it."""
        return fault in FAULTS and any(word in condition_named(fault).found_by for word in self.found_by)

    def score(self, value: float) -> float:
        """A value on its axis, signed so that larger is worse; NaN is worst."""
        if math.isnan(value):
            return math.inf
        placed = value if self.axis == "linear" else math.log(value) if value > 0 else -math.inf
        return placed if self.above else -placed

    def value(self, score: float) -> float:
        """The value that has this score."""
        placed = score if self.above else -score
        return placed if self.axis == "linear" else math.exp(placed)

    def of(self, row: Row) -> float | None:
        """The score of a network: that of its best member; None where a member was not decided."""
        scores = [self.of_letter(row, letter) for letter in self.letters]
        known = [score for score in scores if score is not None]
        return min(known) if len(known) == len(scores) else None

    def of_letter(self, row: Row, letter: str) -> float | None:
        """The score of one member; of a test, of the end of its interval that is nearer to the healthy ones."""
        value = row.readings.get(letter)
        if value is None or not self.test or math.isnan(value):
            return None if value is None else self.score(value)
        return self.score(row.bounds[letter]) if letter in row.bounds else -math.inf


_DEPTH = {"depth_gain": "depth_gain", "readout_gain": "linear_readouts", "stem_gain": "linear_readouts"}


READOUTS = ("readout_gain", "stem_gain")


def _joined() -> Iterable[Candidate]:
    for size in (1, 2, 3):
        for names in combinations(_DEPTH, size):
            yield Candidate(names, 0.0, tuple(dict.fromkeys(_DEPTH[name] for name in names)), DEPTH, test=True)


CANDIDATES: tuple[Candidate, ...] = (
    *_joined(),
    Candidate(("head_gap",), -5.0, ("head_gap",)),
    Candidate(("init_growth",), 10.0, ("growth_from_init",)),
    Candidate(("block_growth",), 10.0, ("block_growth",)),
    Candidate(("residual_growth",), 50.0, ("residual_growth",)),
    Candidate(("total_growth",), 50.0, ("residual_growth", "growth_from_init")),
    Candidate(("error_free_floor",), 1e-6, ("gradient_floor", "reference_check")),
    Candidate(("movement",), 0.01, ("movement",)),
    Candidate(("idle_block",), 1e-6, ("idle_block",)),
    Candidate(("update_provenance",), 0.90, ("update_provenance",)),
    Candidate(("disguise",), 0.60, ("layer_cosine",)),
    Candidate(("reference_doubt",), 0.05, ("reference_check",)),
    Candidate(("headline_check",), 3.29, ("headline_check",)),
    Candidate(("sample_overlap",), 0.005, ("overlap",)),
)
"""In the order of the rule's table."""


@dataclass(frozen=True)
class Decider:
    """A candidate with its threshold."""

    candidate: Candidate
    threshold: float

    def flags(self, row: Row) -> bool:
        """Whether a network lies beyond the threshold; one that was not decided does not."""
        score = self.candidate.of(row)
        return score is not None and score > self.candidate.score(self.threshold)

    def decided(self, row: Row) -> bool:
        """Whether it says something of a network: all members fire, or one passes."""
        limit = self.candidate.score(self.threshold)
        scores = [self.candidate.of_letter(row, letter) for letter in self.candidate.letters]
        return any(score is not None and score <= limit for score in scores) or self.flags(row)


def outcome_of(deciders: Sequence[Decider], row: Row) -> str:
    """pass, fail or incomplete; what the panel says of the same readings."""
    if row.non_finite or any(decider.flags(row) for decider in deciders):
        return "fail"
    joined = [decider for decider in deciders if len(decider.candidate.diagnostics) > 1]
    known = any(named(name).letter in row.readings for name in READOUTS)
    return "pass" if known and all(decider.decided(row) for decider in joined) else "incomplete"


def fitted(rows: Sequence[Row]) -> list[Decider]:
    """The deciders in the order in which they are chosen."""
    if any(row.half != "fit" for row in rows):
        raise InputError("thresholds are fitted on the fit half alone, and there is a network of the held half.")
    sound = [row for row in rows if row.condition == "healthy"]
    faulty = [row for row in rows if row.condition in FAULTS]
    if not sound or not faulty:
        raise InputError("there is nothing to fit on. Make the networks: walkback lab validity --run fit")
    left = [found for candidate in CANDIDATES if (found := fit_one(candidate, sound, faulty)) is not None]
    chosen: list[Decider] = []
    while left:
        best = max(left, key=_preference(chosen, sound, faulty, left))
        if len(added(best, chosen, faulty)) < LEAST_ADDED:
            break
        chosen.append(best)
        group = best.candidate.group
        left = [d for d in left if d is not best and not (group and d.candidate.group == group)]
    return chosen + [d for d in left if d.candidate.diagnostics[0] in FROM_LOGS]


def added(decider: Decider, before: Sequence[Decider], faulty: Sequence[Row]) -> list[Row]:
    """The networks that a decider is meant for and finds, and that none before it flags."""
    return [
        row
        for row in faulty
        if decider.candidate.meant_for(row.condition)
        and decider.flags(row)
        and not any(other.flags(row) for other in before)
    ]


def _preference(
    chosen: Sequence[Decider], sound: Sequence[Row], faulty: Sequence[Row], left: Sequence[Decider]
) -> Callable[[Decider], tuple[int, ...]]:
    def key(decider: Decider) -> tuple[int, ...]:
        gaps = sum(not decider.decided(row) for row in sound)
        return len(added(decider, chosen, faulty)), -gaps, -len(decider.candidate.letters), -left.index(decider)

    return key


def fit_one(candidate: Candidate, sound: Sequence[Row], faulty: Sequence[Row]) -> Decider | None:
    """A candidate with the threshold that the rule gives it; None where that leaves nothing to find."""
    healthy = sorted(score for row in sound if (score := candidate.of(row)) is not None)
    meant = [row for row in faulty if candidate.meant_for(row.condition)]
    scores = [score for row in meant if (score := candidate.of(row)) is not None]
    guard = candidate.score(candidate.guard)
    if not healthy or not scores:
        return None
    limit = guard if candidate.test else _limit(candidate, healthy, scores)
    if limit is None or (candidate.test and healthy[-1] > guard):
        return None
    decider = Decider(candidate, candidate.guard if candidate.test else rounded(candidate, limit))
    return decider if any(decider.flags(row) for row in meant) else None


def _limit(candidate: Candidate, healthy: Sequence[float], faulty: Sequence[float]) -> float | None:
    """Steps 1 to 4 of the rule, on scores; None where there is no such threshold."""
    guard, worst = candidate.score(candidate.guard), healthy[-1]
    if healthy[0] == worst:
        return guard
    if not math.isfinite(worst):
        return None
    least = worst + math.log(RARER) * mean_excess(healthy)
    beyond = [score for score in faulty if score > least]
    if not beyond:
        return None
    # Something infinitely far away says nothing of where between the two a threshold belongs.
    nearest = min(beyond)
    return max(guard, (least + nearest) / 2 if math.isfinite(nearest) else least)


def mean_excess(ordered: Sequence[float]) -> float:
    """The mean distance of the worst tenth, one at least, from the next."""
    count = max(1, len(ordered) // TAIL)
    edge = ordered[-count - 1] if count < len(ordered) else ordered[0]
    return sum(score - edge for score in ordered[-count:]) / count


def rounded(candidate: Candidate, limit: float) -> float:
    """The threshold at a score, to two digits, away from the healthy side."""
    value = candidate.value(limit)
    if value == 0 or math.isclose(candidate.score(candidate.guard), limit, rel_tol=1e-12):
        return candidate.guard if value else 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - DIGITS + 1)
    steps = math.ceil(value / unit - 1e-9) if candidate.above else math.floor(value / unit + 1e-9)
    return float(f"{steps * unit:.{DIGITS}g}")
