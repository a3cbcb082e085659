"""docs/VALIDITY.md: what the bench found, written from its tables. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.validity.alarms import what_flags
from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.fitting import Decider
from walkback.lab.validity.gaps import made, unseen
from walkback.lab.validity.quantities import QUANTITIES
from walkback.lab.validity.rates import Rate, alarm, found
from walkback.lab.validity.scoring import (
    areas,
    by_dial,
    families,
    flagged,
    healthy,
    in_words,
    left_out,
    lost,
    of_fault,
    sensitivities,
    targets,
    undecided,
)
from walkback.lab.validity.shipped import PANEL
from walkback.lab.validity.split import FAULT_QUOTA, HEALTHY_QUOTA, Half
from walkback.lab.validity.table import BAR, CEILING_ERROR, Row, rules
from walkback.present.page import Grid, Heading, Page

Parts = list[str | Grid | Heading]
IMAGE = "images/validity.svg"
PUBLISHED = "april2026"
AT_MOST, MOST_MISSED = 0.02, 2
"""The goals: a bound on false alarms, and how many networks of a fault may be missed."""
HALVES: dict[Half, str] = {
    "held": "The held part, which no threshold has seen",
    "fit": "The part that thresholds were fitted on",
}


def page_of(
    tables: Mapping[Half, Sequence[Row]],
    openings: Sequence[Mapping[str, Any]],
    cost: Mapping[str, Any],
    deciders: Sequence[Decider],
) -> Page:
    """The whole page."""
    parts: Parts = [
        "Networks whose state is known because it was made so: healthy ones, and one kind for each fault (“The faults” "
        "below says what each is). Each was given its frozen baseline, the same network trained with its blocks left "
        "at random, was measured once, and was judged by every panel. A healthy network that a panel fails is "
        "“flagged”: a false alarm. A faulty one that it fails is “found”. Beside the panels stands one simple rule to "
        f"beat, “{BAR}”. h_0 is what the first block reads, and a readout is a linear model that is fitted to it: the "
        "network fails if it is less accurate than that. A network that is not what it was made to be, by a check that "
        "no diagnostic takes part in, was replaced by the next of a list that was fixed beforehand.",
        "Behind each count stands the bound that it supports: 3 of 300 (≤ 2.6 %) says that the true rate is at most "
        "2.6 %, and 27 of 29 (≥ 79.9 %) that it is at least 79.9 %, each with 95 % confidence (one-sided, Clopper and "
        "Pearson).",
        "The split was fixed before the first network was made, by a hash of the configurations: "
        f"{HEALTHY_QUOTA['fit']} healthy networks and {FAULT_QUOTA['fit']} of each fault to fit on, "
        f"{HEALTHY_QUOTA['held']} and {FAULT_QUOTA['held']} to hold back (results/validity/split.json). The second are "
        "the held part.",
        *_opened(openings),
    ]
    if held := tables.get("held"):
        parts += _in_short(held)
    if cost:
        parts.append(
            f"The {cost['networks']} networks of the plan{_in_all(cost, tables)} take about "
            f"{cost['core_hours']['all']:.1f} core-hours by the estimate in results/validity/estimate.json: walkback "
            "lab validity --run fit, then --run held."
        )
    parts += _faults()
    parts += _panel(deciders)
    for half, title in HALVES.items():
        parts += _half(half, title, tables.get(half, ()), tables.get("fit", ()))
    parts += unseen(deciders, tables.get("held", ()))
    return Page("Validity: how often each rule is right", parts)


def _in_all(cost: Mapping[str, Any], tables: Mapping[Half, Sequence[Row]]) -> str:
    """How many there are, where that is not how many were planned."""
    there = sum(map(len, tables.values()))
    return f" (there are {there}: of one fault a list ran out)" if 0 < there < cost["networks"] else ""


def _opened(openings: Sequence[Mapping[str, Any]]) -> list[str]:
    """When the held half was scored; of a second time, why, and what became other than it was."""
    if not openings:
        return ["The held part has not been opened."]
    first, *later = openings
    said = [f"The held part was first scored on {first['date']} at commit {first['commit']}."]
    for before, each in zip(openings, later, strict=False):
        changed = [
            f"{rule} found {was[name]} of {name} then and finds {now} now"
            for rule, counts in each.get("counts", {}).items()
            for name, now in counts.items()
            if (was := before.get("counts", {}).get(rule, {})).get(name, now) != now
        ]
        said.append(
            f"It was scored again on {each['date']} at commit {each['commit']}. Why: {each['why']} What changed: "
            f"{'; '.join(changed) or 'nothing'}."
        )
    return said


def _in_short(rows: Sequence[Row]) -> Parts:
    """What was aimed at and what came, for whoever reads one table."""
    meant = [fault for fault in FAULTS if condition_named(fault).found_by]
    alarms, theirs = flagged(healthy(rows), PANEL), flagged(healthy(rows), PUBLISHED)
    columns = {rule: sensitivities(rows, rule) for rule in (PANEL, PUBLISHED)}
    few = [f for f in meant if columns[PANEL][f].hits < columns[PANEL][f].of - MOST_MISSED]
    total = {rule: Rate(*(sum(c[f][i] for f in meant) for i in (0, 1))) for rule, c in columns.items()}
    lines = [
        [
            f"False alarms of {PANEL}: bounded by {100 * AT_MOST:g} %",
            alarm(alarms),
            "met" if alarms.at_most <= AT_MOST else "missed",
        ],
        [
            f"Every fault that a diagnostic is meant for: at most {MOST_MISSED} networks missed",
            f"{len(meant) - len(few)} of {len(meant)} faults"
            + "".join(f"; {fault} {columns[PANEL][fault].hits} of {columns[PANEL][fault].of}" for fault in few),
            "missed" if few else "met",
        ],
    ]
    worse = lost(rows, PANEL, PUBLISHED)
    decides = (
        f"{PANEL} would take the place of {PUBLISHED} as the panel that decides by default if it flagged fewer healthy "
        f"networks and found no fewer of any fault that a diagnostic is meant for. It flags {alarms.hits} of "
        f"{alarms.of} where {PUBLISHED} flags {theirs.hits}, and finds {total[PANEL].hits} of {total[PANEL].of} faulty "
        f"networks where {PUBLISHED} finds {total[PUBLISHED].hits}. "
    )
    if worse or alarms.hits >= theirs.hits:
        less = ", ".join(f"{f} {columns[PANEL][f].hits} against {columns[PUBLISHED][f].hits}" for f in worse)
        decides += (
            f"But of one fault or more it finds fewer: {less}. So {PUBLISHED} still decides, and its reports tell its "
            "rates." if less
            else f"So {PUBLISHED} still decides, and its reports tell its rates."
        )  # fmt: skip
    return [
        Heading("In short"),
        Grid(("goal, fixed before", "the held part", ""), lines, "lll"),
        decides,
        *what_flags(rows, PUBLISHED),
        Heading(f"Healthy networks that {PANEL} flags", 3),
        _flagged(rows),
    ]


def _flagged(rows: Sequence[Row]) -> Grid:
    """Each of them, with what fired."""
    lines = [
        [row.id[:8], row.architecture, row.task, row.method, f"{100 * row.accuracy:.1f}", f"{100 * row.frozen:.1f}",
         " and ".join(f"({letter}) {row.readings[letter]:.3g}" for letter in row.decided_by[PANEL].split("+"))]
        for row in healthy(rows)
        if row.flagged(PANEL)
    ]  # fmt: skip
    headings = ("network", "architecture", "data", "rule", "accuracy, %", "frozen baseline, %", "what fires")
    return Grid(headings, lines, "llllrrl")


def _panel(deciders: Sequence[Decider]) -> Parts:
    """What `calibrated` decides by."""
    lines = [
        [
            " and ".join(f"({letter})" for letter in d.candidate.letters),
            in_words(d) + (", the whole interval" if d.candidate.test else ""),
            f"{d.candidate.guard:g}",
            ", ".join(fault for fault in FAULTS if d.candidate.meant_for(fault)),
        ]
        for d in deciders
    ]
    return [
        Heading("The panel calibrated"),
        "A network fails where one of these fires. It is incomplete where nothing fires, no linear readout was "
        "measured and depth gain shows no gain. Which diagnostics decide and where was fitted on the part to fit on by "
        "a rule that was written down before (results/validity/RULE.md; walkback lab validity --fit). The last but one "
        "column has the tightest threshold that this rule allows, whatever the networks say. (b), (c) and (d) inform: "
        "a report shows them, and they decide nothing.",
        Grid(("diagnostic", "fires", "tightest allowed", "meant for"), lines, "llrl"),
    ]


def _half(half: Half, title: str, rows: Sequence[Row], fit: Sequence[Row]) -> Parts:
    if not rows:
        return [Heading(title), "Not scored yet."]
    warned = "Thresholds were chosen on these networks, so these rates of calibrated are better than it is. "
    return [
        Heading(title),
        (warned if half == "fit" else "")
        + f"{len(healthy(rows))} healthy networks and {len(rows) - len(healthy(rows))} with a fault{_none_can(rows)}. "
        + made(rows, half),
        Heading("Healthy networks that are flagged", 3),
        "A task “needs depth” where a linear model of the input cannot do it. A frozen baseline is “at the ceiling” "
        f"where it makes less than {100 * CEILING_ERROR:g} % errors, so that training the blocks can gain little.",
        _false_alarms(rows),
        Heading("Networks with a fault that are found", 3),
        _found(rows),
        Heading("Found at each setting of the dial", 3),
        _dials(rows),
        Heading("How well each quantity tells a fault: area under the ROC curve", 3),
        "1 is perfect, .5 is chance. A dash: not measured on one of the two groups. In brackets: the quantity's "
        "diagnostic is meant for this fault.",
        _areas(rows),
        Heading("An architecture left out", 3),
        "The whole rule of calibrated again on the part to fit on without one group, and what it does on that group.",
        _left_out(fit, rows, "architecture"),
        Heading("A data set left out", 3),
        _left_out(fit, rows, "task"),
    ]


def _none_can(rows: Sequence[Row]) -> str:
    """How many of the faulty networks no diagnostic is meant to find."""
    hopeless = {f: len(of_fault(rows, f)) for f in FAULTS if not condition_named(f).found_by and of_fault(rows, f)}
    faulty = len(rows) - len(healthy(rows))
    told = "; ".join(
        f"{number} of them are {fault}, which no diagnostic can find" for fault, number in hopeless.items()
    )
    return f" ({told}, so rates are of the other {faulty - sum(hopeless.values())})" if told else ""


def _with_gaps(words: str, missing: int) -> str:
    return f"{words}, {missing} incomplete" if missing else words


def _false_alarms(rows: Sequence[Row]) -> Grid:
    names = rules()
    lines = [
        [group, *(_with_gaps(alarm(flagged(members, rule)), undecided(members, rule)) for rule in names)]
        for group, members in families(rows).items()
        if members
    ]
    return Grid(("healthy networks", *names), lines, "l" + "r" * len(names))


def _found(rows: Sequence[Row]) -> Grid:
    names = rules()
    columns = {rule: sensitivities(rows, rule) for rule in names}
    lines = [
        [
            fault,
            ", ".join(condition_named(fault).found_by) or "none can",
            *(_with_gaps(found(columns[rule][fault]), undecided(of_fault(rows, fault), rule)) for rule in names),
        ]
        for fault in FAULTS
    ]
    return Grid(("fault", "meant to find it", *names), lines, "ll" + "r" * len(names))


def _dials(rows: Sequence[Row]) -> Grid:
    names = rules()
    lines = []
    for fault in FAULTS:
        columns = {rule: by_dial(rows, fault, rule) for rule in names}
        lines += [
            [fault, f"{dial:g}", *(f"{columns[rule][dial].hits} of {columns[rule][dial].of}" for rule in names)]
            for dial in condition_named(fault).dials
        ]
    return Grid(("fault", "dial", *names), lines, "lr" + "r" * len(names))


def _areas(rows: Sequence[Row]) -> Grid:
    columns = {candidate.name: areas(rows, candidate) for candidate in QUANTITIES}
    meant = {candidate.name: targets(candidate) for candidate in QUANTITIES}
    lines = [
        [name, *(_area(columns[name][fault], fault in meant[name]) for fault in FAULTS)]
        for name in columns
    ]  # fmt: skip
    return Grid(("quantity", *FAULTS), lines, "l" + "r" * len(FAULTS))


def _area(value: float | None, meant: bool) -> str:
    words = "–" if value is None else f"{value:.3f}"
    return f"({words})" if meant else words


def _left_out(fit: Sequence[Row], rows: Sequence[Row], key: str) -> Grid:
    lines = [
        [result.group, alarm(result.false_alarms), found(result.found), str(len(result.deciders))]
        for result in left_out(fit, rows, lambda row: str(getattr(row, key)))
    ]
    return Grid(("left out", "healthy flagged", "faults found", "deciders"), lines, "lrrr")


def _faults() -> Parts:
    conditions = [condition_named(name) for name in FAULTS]
    lines = [
        [c.name, c.family, c.title, c.made, f"{c.dial_is}: {', '.join(f'{dial:g}' for dial in c.dials)}",
         ", ".join(c.found_by) or "none", c.unseen or "–"]
        for c in conditions
    ]  # fmt: skip
    headings = ("fault", "family", "what is wrong", "how it is made", "dial", "meant to find it", "what cannot be seen")
    return [Heading("The faults"), Grid(headings, lines, "lllllll")]
