"""How many core-hours each reproduction takes, from a few steps of each kind of run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from walkback.lab.reproductions.published import Reproduction
from walkback.lab.runs.pace import seconds_per_epoch
from walkback.lab.runs.stamp import stamp

STEPS = 30


def estimated(wanted: Iterable[Reproduction], say: Callable[[str], None], steps: int = STEPS) -> dict[str, Any]:
    """Core-hours by name, without what is measured after each epoch; CPU time, so that a busy machine changes little.

    One run of each is timed, and taken for those with one factor changed.
    """
    paces: dict[str, float] = {}
    hours: dict[str, float] = {}
    for each in wanted:
        config = each.config()
        pace = seconds_per_epoch(config, steps, time.process_time)
        runs = 1 + len(each.one_factor)
        paces[each.name], hours[each.name] = round(pace, 1), round(runs * pace * config.epochs / 3600, 3)
        say(f"{pace:7.1f} s an epoch, {hours[each.name]:6.2f} core-hours  {each.name}")
    return {
        "command": "walkback lab reproduce --estimate",
        "steps": steps,
        "clock": "CPU time of one thread",
        "seconds_per_epoch": paces,
        "core_hours": hours,
        **stamp(),
    }
