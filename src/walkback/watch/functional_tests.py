"""When a monitor makes the functional tests: they take many passes, and have a share of the time for themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from walkback.watch.budget import Cadence, Clock, TimeBudget

NO_TIME = "the budget did not pay for the tests at this moment"


@dataclass(frozen=True)
class FunctionalTests:
    """Whether there is time for them, and the clock that counts it; without a clock there always is."""

    clock: Clock | None = None
    budget: TimeBudget | None = None

    def fields(self, test: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What the tests find, or why they were not made."""
        if self.clock is None:
            return test()
        if self.budget is not None and not self.budget.pays_for(self.clock.tests, self.clock):
            return {"no_functional": NO_TIME}
        with self.clock.tested():
            return test()


def shared_out(cadence: Cadence, clock: Clock, asked: bool) -> tuple[Cadence, FunctionalTests]:
    """The cadence of the usual measurements, and that of the tests.

    Of a budget each gets half, so that tests which take long never keep (a) and (b) from being looked at. With
    `every=` the tests are part of each measurement.
    """
    if not asked or not isinstance(cadence, TimeBudget):
        return cadence, FunctionalTests(clock)
    return cadence.halved(), FunctionalTests(clock, cadence.halved())
