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


class Clock:
    """How long training and measuring have taken since the clock was started."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.measuring = 0.0
        self.costs: deque[float] = deque(maxlen=RECENT)
        """What the last measurements took."""
        self._started: float | None = None

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
        """Count what happens inside, and what was spent on it before, as measuring."""
        begun = self.now()
        try:
            yield
        finally:
            self.add(self.now() - begun + already_spent)

    def add(self, cost: float) -> None:
        """Count one measurement that took so long."""
        self.measuring += cost
        self.costs.append(cost)


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
        if not clock.costs:
            return True
        return clock.measuring + median(clock.costs) <= self.share * clock.training


Cadence = EverySteps | TimeBudget


def cadence_of(every: int | None, budget: float | None) -> Cadence:
    """The cadence that was asked for: steps where they are given, else the budget."""
    if every is not None:
        return EverySteps(every)
    return TimeBudget(DEFAULT_SHARE if budget is None else budget)
