"""The tables of one part of the bench, as docs/VALIDITY.md has them. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.lab.validity import scoring
from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.quantities import QUANTITIES
from walkback.lab.validity.rates import alarm, found
from walkback.lab.validity.scoring import (
    by_dial,
    by_what_is_meant,
    families,
    flagged,
    meant_letters,
    of_fault,
    sensitivities,
    targets,
    undecided,
)
from walkback.lab.validity.shipped import PANEL
from walkback.lab.validity.table import Row, rules
from walkback.present.page import Grid


def _with_gaps(words: str, missing: int) -> str:
    return f"{words}, {missing} incomplete" if missing else words


def false_alarms(rows: Sequence[Row]) -> Grid:
    """How many healthy networks every rule flags, by group."""
    names = rules()
    lines = [
        [group, *(_with_gaps(alarm(flagged(members, rule)), undecided(members, rule)) for rule in names)]
        for group, members in families(rows).items()
        if members
    ]
    return Grid(("healthy networks", *names), lines, "l" + "r" * len(names))


def found_faults(rows: Sequence[Row]) -> Grid:
    """How many of each fault every rule finds, and the last by what is meant for it."""
    names = rules()
    columns = {rule: sensitivities(rows, rule) for rule in names}
    lines = [
        [
            fault,
            ", ".join(f"({letter})" for letter in meant_letters(fault)) or "none can",
            *(_with_gaps(found(columns[rule][fault]), undecided(of_fault(rows, fault), rule)) for rule in names),
            str(by_what_is_meant(rows, fault, PANEL)) if meant_letters(fault) else "–",
        ]
        for fault in FAULTS
    ]
    headings = ("fault", "meant to find it", *names, f"{PANEL}, by what is meant for the fault")
    return Grid(headings, lines, "ll" + "r" * (len(names) + 1))


def dials(rows: Sequence[Row]) -> Grid:
    """The same at each setting of the dial."""
    names = rules()
    lines = []
    for fault in FAULTS:
        columns = {rule: by_dial(rows, fault, rule) for rule in names}
        lines += [
            [fault, f"{dial:g}", *(f"{columns[rule][dial].hits} of {columns[rule][dial].of}" for rule in names)]
            for dial in condition_named(fault).dials
        ]
    return Grid(("fault", "dial", *names), lines, "lr" + "r" * len(names))


def areas(rows: Sequence[Row]) -> Grid:
    """The area under the ROC curve of every quantity."""
    columns = {candidate.shown: scoring.areas(rows, candidate) for candidate in QUANTITIES}
    meant = {candidate.shown: targets(candidate) for candidate in QUANTITIES}
    lines = [
        [name, *(_area(columns[name][fault], fault in meant[name]) for fault in FAULTS)]
        for name in columns
    ]  # fmt: skip
    return Grid(("quantity", *FAULTS), lines, "l" + "r" * len(FAULTS))


def _area(value: float | None, meant: bool) -> str:
    words = "–" if value is None else f"{value:.3f}"
    return f"({words})" if meant else words


def left_out(fit: Sequence[Row], rows: Sequence[Row], key: str) -> Grid:
    """What the rule of `calibrated` does on a group that it was fitted without."""
    lines = [
        [result.group, alarm(result.false_alarms), found(result.found), str(len(result.deciders))]
        for result in scoring.left_out(fit, rows, lambda row: str(getattr(row, key)))
    ]
    return Grid(("left out", "healthy flagged", "faults found", "deciders"), lines, "lrrr")
