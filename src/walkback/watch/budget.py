"""When to measure: every so many steps, or as often as a share of the training time allows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from walkback.errors import InputError

DEFAULT_SHARE = 0.02
RECENT = 5
"""The next measurement is expected to take as long as the median of so many: one that was held up does not count."""


class Spent:
    """What measurements of one kind have taken."""

    def __init__(self) -> None:
        self.total = 0.0
        self.costs: deque[float] = deque(maxlen=RECENT)
        """Of the last ones."""

    def add(self, cost: float) -> None:
        """Count one that took so long."""
        self.total += cost
        self.costs.append(cost)


class Clock:
    """How long training and measuring have taken since the clock was started."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.usual, self.tests = Spent(), Spent()
        """Measurements without the functional tests, and those tests."""
        self._started: float | None = None

    @property
    def measuring(self) -> float:
        """All that was not training."""
        return self.usual.total + self.tests.total

    def start(self) -> None:
        """Begin to count, if it has not begun."""
        if self._started is None:
            self._started = self.now()

    @property
    def training(self) -> float:
        """The time that was not spent measuring."""
        return 0.0 if self._started is None else self.now() - self._started - self.measuring

    @property
    def overhead(self) -> float | None:
        """Measuring over training; None before there was any."""
        return self.measuring / self.training if self.training > 0 else None

    @contextmanager
    def measured(self, already_spent: float = 0.0) -> Iterator[None]:
        """Count what happens inside, and what was spent on it before, as measuring; `tested` inside counts apart."""
        begun, tests = self.now(), self.tests.total
        try:
            yield
        finally:
            self.add(self.now() - begun + already_spent - (self.tests.total - tests))

    @contextmanager
    def tested(self) -> Iterator[None]:
        """Count what happens inside as functional tests."""
        begun = self.now()
        try:
            yield
        finally:
            self.tests.add(self.now() - begun)

    def add(self, cost: float) -> None:
        """Count one measurement that took so long."""
        self.usual.add(cost)


class EverySteps:
    """Every so many training steps."""

    def __init__(self, steps: int) -> None:
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"every is {steps!r}; expected a number of training steps, 1 or more.")
        self.steps = steps

    def due(self, step: int, clock: Clock) -> bool:
        """Whether to measure after this step."""
        return step % self.steps == 0


class TimeBudget:
    """As often as a share of the training time allows.

    A measurement is due when what has been spent and one more of them fit the budget. The first is made at once, to
    see the network as it starts and what a measurement costs; the next ones wait until training has paid for it.
    """

    def __init__(self, share: float = DEFAULT_SHARE) -> None:
        if not 0 < share <= 1:
            raise InputError(f"budget is {share!r}; expected a share of the training time such as 0.02, for 2 %.")
        self.share = share

    def due(self, step: int, clock: Clock) -> bool:
        """Whether to measure after this step."""
        return self.pays_for(clock.usual, clock)

    def pays_for(self, spent: Spent, clock: Clock) -> bool:
        """Whether one more measurement of a kind fits."""
        return not spent.costs or spent.total + median(spent.costs) <= self.share * clock.training

    def halved(self) -> TimeBudget:
        """Half of it."""
        return TimeBudget(self.share / 2)


Cadence = EverySteps | TimeBudget


def cadence_of(every: int | None, budget: float | None) -> Cadence:
    """The cadence that was asked for: steps where they are given, else the budget."""
    if every is not None:
        return EverySteps(every)
    return TimeBudget(DEFAULT_SHARE if budget is None else budget)
