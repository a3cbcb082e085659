"""What the figure of the bench shows, from its tables. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walkback.lab.validity.conditions import FAULTS
from walkback.lab.validity.quantities import QUANTITIES
from walkback.lab.validity.rates import curve
from walkback.lab.validity.scoring import families, flagged, healthy, of_fault, sensitivities, targets
from walkback.lab.validity.split import Half
from walkback.lab.validity.table import Row, finite_values
from walkback.present.figures.validity import Point, Scores

GROUPS = 5
"""The first groups of healthy networks: all, by what the task needs, and by ceiling."""


def scores_of(tables: Mapping[Half, Sequence[Row]], rules: Sequence[str]) -> Scores:
    """Of the held part where it was opened, else of the other."""
    half: Half = "held" if tables.get("held") else "fit"
    rows = tables[half]
    columns = {rule: sensitivities(rows, rule) for rule in rules}
    found = {
        fault: {rule: Point(columns[rule][fault].share, columns[rule][fault].at_least) for rule in rules}
        for fault in FAULTS
        if of_fault(rows, fault)
    }
    alarms = {
        name: {rule: Point(rate.share, rate.at_most) for rule in rules for rate in [flagged(group, rule)]}
        for name, group in list(families(rows).items())[:GROUPS]
        if group
    }
    return Scores(f"{half} part", list(rules), found, alarms, _curves(rows))


def _curves(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    sound, result = healthy(rows), {}
    for candidate in QUANTITIES:
        wanted = set(targets(candidate))
        faulty = finite_values([row for row in rows if row.condition in wanted], candidate.name)
        known = finite_values(sound, candidate.name)
        if faulty and known:
            result[candidate.shown] = curve(faulty, known, high=candidate.high)
    return result
