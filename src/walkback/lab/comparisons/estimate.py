"""How many core-hours comparisons take: one epoch of each arm timed by some of its steps, and all runs added up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from walkback.lab.comparisons.plan import Comparison
from walkback.lab.runs.pace import seconds_per_epoch
from walkback.lab.runs.stamp import stamp

STEPS = 10
ESTIMATE_FILE = "estimate_field.json"
NOT_IN_IT = (
    "CPU time of one thread, by the median of some steps of each arm. Not in it: scoring the validation samples after "
    "every epoch, and what is measured of each final run when it ends. Other processes of the machine slow a step down "
    "even in CPU time, so a busy one gives too much rather than too little."
)


def estimated(wanted: Iterable[Comparison], say: Callable[[str], None], steps: int = STEPS) -> dict[str, Any]:
    """Seconds per epoch of every arm, and core-hours of every comparison."""
    paces: dict[str, dict[str, float]] = {}
    hours: dict[str, float] = {}
    for comparison in wanted:
        found = paces.setdefault(comparison.name, {})
        for arm in comparison.arms():
            config = comparison.tuning_run(arm, comparison.centre(arm))
            found[arm.label] = round(seconds_per_epoch(config, steps, time.process_time), 2)
            say(f"{found[arm.label]:8.2f} s an epoch  {comparison.name}: {arm.label}")
        runs = (comparison.budget + comparison.seeds) * comparison.epochs
        hours[comparison.name] = round(runs * sum(found.values()) / 3600, 2)
        say(f"{hours[comparison.name]:8.2f} core-hours  {comparison.name}")
    say(f"{sum(hours.values()):8.2f} core-hours in all")
    return {
        "command": "walkback lab compare --estimate",
        "steps": steps,
        "how": NOT_IN_IT,
        "seconds_per_epoch": paces,
        "core_hours": hours,
        "core_hours_in_all": round(sum(hours.values()), 1),
        **stamp(),
    }
