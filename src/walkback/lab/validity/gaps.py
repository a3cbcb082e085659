"""What the bench lacks, and what `calibrated` misses: settings of dials, and fewer measurements. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walkback.lab.validity.conditions import CONDITIONS, FAULTS, condition_named
from walkback.lab.validity.fitting import Decider
from walkback.lab.validity.rates import Rate, alarm
from walkback.lab.validity.scoring import by_dial, healthy, of_fault
from walkback.lab.validity.shipped import PANEL
from walkback.lab.validity.split import Half, halves, quota
from walkback.lab.validity.table import Row
from walkback.present.page import Grid, Heading
from walkback.protocol.panels.rates import FEW

Parts = list[str | Grid | Heading]
AT_HAND: Mapping[str, tuple[str, ...]] = {
    "everything": (),
    "no training code": ("u", "di"),
    "no training code, no initial weights": ("u", "di", "m", "i", "bg"),
    "no training code, no initial weights, no training data": ("u", "di", "m", "i", "bg", "o"),
}
"""What a reader may have of a network, and the deciders that cannot be measured then."""


def replaced(rows: Sequence[Row], half: Half) -> dict[str, int]:
    """By condition, how many networks were made that are not what it says, and were replaced by the next of the list.

    Those that count are the first of the list that are as they should be, so the others stand before the last of them;
    where the list ran out, all of it was made.
    """
    found, lacking = {}, short(rows, half)
    for name in CONDITIONS:
        used = {row.id for row in of_fault(rows, name)}
        listed = halves()[half].get(name, ())
        places = [place for place, config in enumerate(listed) if config.id in used]
        made = len(listed) if name in lacking else max(places, default=-1) + 1
        if places and (others := made - len(places)):
            found[name] = others
    return found


def short(rows: Sequence[Row], half: Half) -> dict[str, Rate]:
    """The conditions that have fewer networks than was fixed: the list ran out."""
    counts = {name: Rate(len(of_fault(rows, name)), quota(name, half)) for name in CONDITIONS}
    return {name: count for name, count in counts.items() if count.hits < count.of}


def missed(rows: Sequence[Row]) -> dict[str, dict[float, Rate]]:
    """Of each fault that a diagnostic is meant for, the settings of its dial at which not all were found."""
    found = {fault: by_dial(rows, fault, PANEL) for fault in FAULTS if condition_named(fault).found_by}
    some = {
        fault: {dial: rate for dial, rate in rates.items() if rate.hits < rate.of} for fault, rates in found.items()
    }
    return {fault: rates for fault, rates in some.items() if rates}


def found_without(rows: Sequence[Row], letters: Sequence[str]) -> tuple[Rate, dict[str, Rate]]:
    """Healthy networks that the panel flags without these deciders, and what it finds then of each fault."""
    faults = {f: _failed(of_fault(rows, f), letters) for f in FAULTS if condition_named(f).found_by}
    return _failed(healthy(rows), letters), faults


def _failed(rows: Sequence[Row], without: Sequence[str]) -> Rate:
    fired = [set(row.decided_by.get(PANEL, "").split("+")) - {"", *without} for row in rows]
    return Rate(sum(map(bool, fired)), len(rows))


def unseen(deciders: Sequence[Decider], held: Sequence[Row]) -> Parts:
    """What no decider is meant for, what a fault keeps out of sight, and what was missed."""
    blind = [fault for fault in FAULTS if not any(d.candidate.meant_for(fault) for d in deciders)]
    partly = [f for f in FAULTS if f not in blind and condition_named(f).unseen]
    lines = [f"{fault}: {condition_named(fault).unseen}" for fault in (*blind, *partly)]
    return [
        Heading("What calibrated cannot see"),
        "Nothing that decides is meant for: " + (", ".join(blind) or "no fault of the bench") + ". In detail:",
        *lines,
        *(_missed(held) if held else []),
    ]


def _missed(rows: Sequence[Row]) -> Parts:
    """What of the held half was missed, and what more would be where less can be measured."""
    some = [
        f"{fault}, {condition_named(fault).dial_is} {dial:g}: {rate.hits} of {rate.of}"
        for fault, rates in missed(rows).items()
        for dial, rate in rates.items()
    ]
    lines = []
    for what, without in AT_HAND.items():
        alarms, faults = found_without(rows, without)
        total = Rate(sum(rate.hits for rate in faults.values()), sum(rate.of for rate in faults.values()))
        few = [f"{fault} {rate.hits} of {rate.of}" for fault, rate in faults.items() if rate.share < FEW]
        lines.append([what, alarm(alarms), f"{total.hits} of {total.of}", ", ".join(few) or "–"])
    return [
        "Settings of a dial at which not all networks of the held part were found: "
        + ("; ".join(some) or "none")
        + ".",
        Heading("With less to measure", 3),
        "Not everyone who judges a network has its training code, its initial weights and its training data. What the "
        "panel finds of the held part without the diagnostics that need them:",
        Grid(("at hand", "healthy flagged", "faulty found", "mostly missed"), lines, "lrrl"),
    ]


def made(rows: Sequence[Row], half: Half) -> str:
    """How many had to be made for these, and of what there are too few."""
    others, lacking = replaced(rows, half), short(rows, half)
    said = f"{sum(others.values())} more were made and replaced, because they are not what their condition says"
    said += f" ({', '.join(f'{name} {number}' for name, number in others.items())})." if others else "."
    return said + "".join(
        f" {name} has {count.hits} networks of {count.of}: its list ran out." for name, count in lacking.items()
    )
