"""How often each rule is right: sensitivity per fault, false alarms per group, ROC, and groups left out. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from walkback.lab.validity.conditions import CONDITIONS, FAULTS, condition_named
from walkback.lab.validity.fitting import Decider, fitted, outcome_of
from walkback.lab.validity.quantities import QUANTITIES, Candidate
from walkback.lab.validity.rates import Rate, area
from walkback.lab.validity.table import LINEAR_DOES_MUCH, NEEDS_DEPTH, Row, finite_values, rules

Key = Callable[[Row], str]


def healthy(rows: Iterable[Row]) -> list[Row]:
    """The healthy ones."""
    return [row for row in rows if row.condition == "healthy"]


def of_fault(rows: Iterable[Row], fault: str) -> list[Row]:
    """Those with one fault."""
    return [row for row in rows if row.condition == fault]


def without_bp(rows: Iterable[Row]) -> list[Row]:
    """The healthy ones that were not trained by backpropagation."""
    return [row for row in healthy(rows) if row.method != "bp"]


def flagged(rows: Sequence[Row], rule: str) -> Rate:
    """How many a rule fails."""
    return Rate(sum(row.flagged(rule) for row in rows), len(rows))


def undecided(rows: Sequence[Row], rule: str) -> int:
    """How many a rule leaves incomplete: neither an alarm nor a miss of its own."""
    return sum(row.outcomes.get(rule, "incomplete") == "incomplete" for row in rows)


def families(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The healthy networks by group: all, by what their task needs, at a ceiling or not, by rule, network and data."""
    sound = healthy(rows)
    groups: dict[str, list[Row]] = {"all": sound}
    for name in (NEEDS_DEPTH, LINEAR_DOES_MUCH):
        groups[name] = [row for row in sound if row.group == name]
    groups["frozen baseline at the ceiling"] = [row for row in sound if row.ceiling]
    groups["below the ceiling"] = [row for row in sound if not row.ceiling]
    groups["rule other than bp"] = without_bp(rows)
    for title, key in (("rule", "method"), ("architecture", "architecture"), ("data", "task")):
        for value in sorted({getattr(row, key) for row in sound}):
            groups[f"{title} {value}"] = [row for row in sound if getattr(row, key) == value]
    return groups


def sensitivities(rows: Sequence[Row], rule: str) -> dict[str, Rate]:
    """How many of each fault a rule finds."""
    return {fault: flagged(of_fault(rows, fault), rule) for fault in FAULTS}


def counts_of(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How many of each condition every rule fails."""
    return {
        rule: {name: flagged(of_fault(rows, name), rule).hits for name in CONDITIONS if of_fault(rows, name)}
        for rule in rules()
    }


def lost(rows: Sequence[Row], rule: str, other: str) -> list[str]:
    """The faults of which a rule finds fewer networks than another, of those that a diagnostic is meant for."""
    return [
        fault
        for fault in FAULTS
        if condition_named(fault).found_by
        and flagged(of_fault(rows, fault), rule).hits < flagged(of_fault(rows, fault), other).hits
    ]


def by_dial(rows: Sequence[Row], fault: str, rule: str) -> dict[float, Rate]:
    """How many of a fault a rule finds at each setting of its dial."""
    found = of_fault(rows, fault)
    return {dial: flagged([row for row in found if row.dial == dial], rule) for dial in condition_named(fault).dials}


def areas(rows: Sequence[Row], candidate: Candidate) -> dict[str, float | None]:
    """The area under the ROC curve of a quantity, for each fault against all healthy networks."""
    sound = finite_values(healthy(rows), candidate.name)
    return {
        fault: area(finite_values(of_fault(rows, fault), candidate.name), sound, high=candidate.high)
        for fault in FAULTS
    }


def targets(candidate: Candidate) -> list[str]:
    """The faults that the quantity's diagnostic is meant to find."""
    return [fault for fault in FAULTS if set(candidate.found_by) & set(condition_named(fault).found_by)]


def meant_letters(fault: str) -> list[str]:
    """The letters of the diagnostics that are meant to find a fault, in the order of the quantities."""
    return [candidate.letter for candidate in QUANTITIES if candidate.letter and fault in targets(candidate)]


def by_what_is_meant(rows: Sequence[Row], fault: str, rule: str) -> int:
    """How many of a fault a rule finds by a diagnostic that is meant for it, and not only by something else."""
    meant = set(meant_letters(fault))
    return sum(not meant.isdisjoint(row.decided_by.get(rule, "").split("+")) for row in of_fault(rows, fault))


class LeftOut(NamedTuple):
    """The panel's rule fitted without a group, on that group."""

    group: str
    deciders: tuple[str, ...]
    """What decides then, and where: `movement < 0.01`."""
    false_alarms: Rate
    found: Rate
    """Of the faults that a decider is meant for."""


def left_out(fit: Sequence[Row], scored: Sequence[Row], key: Key) -> list[LeftOut]:
    """For each group: the whole rule on the fit half without it, then counted on the group.

    A group without which there is nothing left to fit on is left out of the answer.
    """
    result = []
    for group in sorted({key(row) for row in scored}):
        rest = [row for row in fit if key(row) != group]
        if not healthy(rest) or len(healthy(rest)) == len(rest):
            continue
        deciders = fitted(rest)
        here = [row for row in scored if key(row) == group]
        meant = [row for row in here if any(d.candidate.meant_for(row.condition) for d in deciders)]
        sound, faulty = healthy(here), [row for row in meant if row.condition != "healthy"]
        result.append(
            LeftOut(group, tuple(map(in_words, deciders)), _failed(deciders, sound), _failed(deciders, faulty))
        )
    return result


def _failed(deciders: Sequence[Decider], rows: Sequence[Row]) -> Rate:
    return Rate(sum(outcome_of(deciders, row) == "fail" for row in rows), len(rows))


def in_words(decider: Decider) -> str:
    """`movement < 0.01`."""
    names = " and ".join(decider.candidate.diagnostics)
    return f"{names} {'>' if decider.candidate.above else '<'} {decider.threshold:g}"


def summary(rows: Sequence[Row], rules: Sequence[str]) -> dict[str, Any]:
    """All of it as plain numbers, for a file."""
    return {
        "networks": len(rows),
        "rules": {
            rule: {
                "false_alarms": {name: _plain(flagged(group, rule)) for name, group in families(rows).items()},
                "found": {fault: _plain(rate) for fault, rate in sensitivities(rows, rule).items()},
            }
            for rule in rules
        },
        "areas": {candidate.name: areas(rows, candidate) for candidate in QUANTITIES},
    }


def _plain(rate: Rate) -> dict[str, float | int | None]:
    return {
        "count": rate.hits,
        "of": rate.of,
        "at_least": round(rate.at_least, 4) if rate.of else None,
        "at_most": round(rate.at_most, 4) if rate.of else None,
    }
