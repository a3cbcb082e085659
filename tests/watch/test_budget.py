import random

import pytest

from walkback.errors import InputError
from walkback.watch.budget import Clock, EverySteps, TimeBudget, cadence_of


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def trained(cadence, steps, step_seconds, cost):
    """The clock and the measured steps of a run in which a step and a measurement take these times."""
    time, measured = Time(), []
    clock = Clock(time)
    clock.start()
    for step in range(1, steps + 1):
        time.now += step_seconds()
        if cadence.due(step, clock):
            with clock.measured():
                time.now += cost()
            measured.append(step)
    return clock, measured


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2])
def test_the_budget_is_met_within_a_tenth_of_itself(share):
    draw = random.Random(0)
    clock, measured = trained(
        TimeBudget(share), 20_000, lambda: draw.uniform(0.01, 0.02), lambda: draw.uniform(0.03, 0.05)
    )
    assert 0.9 * share <= clock.overhead <= 1.1 * share
    late = sum(step > 10_000 for step in measured)
    assert late == pytest.approx(len(measured) / 2, rel=0.05)


def test_a_measurement_that_cost_too_much_is_paid_for_before_the_next():
    costs = iter([0.01, 0.01, 10.0] + [0.01] * 10_000)
    clock, measured = trained(TimeBudget(0.02), 60_000, lambda: 0.01, lambda: next(costs))
    assert measured[0] == 1
    assert measured[3] - measured[2] == pytest.approx(50_000, rel=0.01)
    assert clock.overhead == pytest.approx(0.02, rel=0.01)


def test_every_so_many_steps():
    _, measured = trained(EverySteps(10), 35, lambda: 1.0, lambda: 1.0)
    assert measured == [10, 20, 30]


def test_what_hooks_spent_before_counts_as_measuring():
    time = Time()
    clock = Clock(time)
    clock.start()
    time.now = 10.0
    with clock.measured(already_spent=2.0):
        time.now += 1.0
    assert clock.measuring == 3.0
    assert clock.training == 8.0


@pytest.mark.parametrize("budget", [0, -1, 2, float("nan")])
def test_a_budget_that_is_no_share_is_refused(budget):
    with pytest.raises(InputError, match="share of the training time"):
        cadence_of(None, budget)


@pytest.mark.parametrize("every", [0, -3, 1.5])
def test_every_must_be_a_number_of_steps(every):
    with pytest.raises(InputError, match="every is"):
        cadence_of(every, 0.02)
