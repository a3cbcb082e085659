"""docs/VALIDITY.md: what the bench found, written from its tables. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.validity import score_tables
from walkback.lab.validity.alarms import what_flags
from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.fault_table import faults
from walkback.lab.validity.fitting import CANDIDATES, Decider
from walkback.lab.validity.gaps import made, unseen
from walkback.lab.validity.history import told
from walkback.lab.validity.quantities import with_name
from walkback.lab.validity.rates import Rate, alarm, found
from walkback.lab.validity.scoring import (
    by_what_is_meant,
    flagged,
    healthy,
    lost,
    of_fault,
    sensitivities,
)
from walkback.lab.validity.shipped import PANEL
from walkback.lab.validity.split import FAULT_QUOTA, HEALTHY_QUOTA, Half
from walkback.lab.validity.table import BAR, CEILING_ERROR, Row
from walkback.present.page import Grid, Heading, Links, Page
from walkback.protocol.wording import listed

Parts = list[str | Grid | Heading]
IMAGE = "images/validity.svg"
PUBLISHED = "april2026"
AT_MOST, MOST_MISSED = 0.02, 2
"""The goals: a bound on false alarms, and how many networks of a fault may be missed."""
OLDER_WORDS = (
    "RULE.md and the source code call some diagnostics by older words: linear_readouts for (r) and (w), "
    "growth_from_init for (i) and (t), residual_growth for (a) and (t), gradient_floor for (b) and (s), "
    "reference_check for (rd) and (s), layer_cosine for (di), overlap for (o), depth_gain for (h) and (d)."
)
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
    few, most = Rate(3, 300), Rate(27, 29)
    parts: Parts = [
        "The networks of this bench were built with or without known faults: healthy ones, and one kind for each "
        "fault (“The faults” below says what each is). Each network was measured once, together with its frozen "
        "baseline (the same network trained with its blocks left at random), and was judged by every panel. A healthy "
        "network that a panel fails is “flagged”: a false alarm. A faulty one that it fails is “found”. The panels "
        f"are compared with one simple rule, “{BAR}”: h_0 is what the first block reads, a readout is a linear model "
        "fitted to it, and the network fails if it is less accurate than that. Whether a network is what it was built "
        "to be was checked without any diagnostic; one that is not was replaced by the next of a list that was fixed "
        "beforehand.",
        Links(
            (
                ("The table of letters", "glossary.md#letters"),
                ("says which diagnostic a letter such as (bg) stands for.", ""),
            )
        ),
        f"The number in brackets after a count is the bound that it supports: {alarm(few)} says that the true "
        f"rate is at most {100 * few.at_most:.1f} %, and {found(most)} that it is at least "
        f"{100 * most.at_least:.1f} %, each with 95 % confidence (one-sided, Clopper and Pearson).",
        Heading("When each part was made and scored"),
        "The split was fixed before the first network was made, by a hash of the configurations: "
        f"{HEALTHY_QUOTA['fit']} healthy networks and {FAULT_QUOTA['fit']} of each fault to fit on, "
        f"and {HEALTHY_QUOTA['held']} and {FAULT_QUOTA['held']} to hold back, “the held part” "
        "(results/validity/split.json).",
        *told(openings),
    ]
    if held := tables.get("held"):
        parts += _in_short(held)
    if cost:
        parts.append(
            f"The {cost['networks']} networks of the plan{_in_all(cost, tables)} take about "
            f"{cost['core_hours']['all']:.1f} core-hours by the estimate in results/validity/estimate.json: walkback "
            "lab validity --run fit, then --run held."
        )
    parts += faults()
    parts += _panel(deciders, tables.get("fit", ()))
    for half, title in HALVES.items():
        parts += _half(half, title, tables.get(half, ()), tables.get("fit", ()))
    parts += unseen(deciders, tables.get("held", ()))
    return Page("Validity: how often each rule is right", parts)


def _in_all(cost: Mapping[str, Any], tables: Mapping[Half, Sequence[Row]]) -> str:
    """How many there are, where that is not how many were planned."""
    there = sum(map(len, tables.values()))
    return f" (there are {there}, because the list of one fault ran out)" if 0 < there < cost["networks"] else ""


def _in_short(rows: Sequence[Row]) -> Parts:
    """The goals and what came of them, for whoever reads one table."""
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
            f"But of {'one fault' if len(worse) == 1 else f'{len(worse)} faults'} it finds fewer: {less}. So "
            f"{PUBLISHED} still decides, and its reports tell its rates." if less
            else f"So {PUBLISHED} still decides, and its reports tell its rates."
        )  # fmt: skip
    return [
        Heading("In short"),
        Grid(("goal", "the held part", ""), lines, "lll"),
        "The first goal was written down in results/validity/RULE.md before any network was scored. The second is on "
        "record only since the held part was scored for the second time. " + _as_meant(rows, meant),
        decides,
        *what_flags(rows, PUBLISHED),
        Heading(f"Healthy networks that {PANEL} flags", 3),
        _flagged(rows),
    ]


def _as_meant(rows: Sequence[Row], faults: Sequence[str]) -> str:
    """The second goal, held to what is found by a diagnostic that is meant for the fault."""
    counts = {fault: Rate(by_what_is_meant(rows, fault, PANEL), len(of_fault(rows, fault))) for fault in faults}
    few = [f"{fault} {rate.hits} of {rate.of}" for fault, rate in counts.items() if rate.hits < rate.of - MOST_MISSED]
    return (
        "A fault may also be found by something else that it brings along. Counting only what is meant for the fault, "
        f"the second goal is met for {len(faults) - len(few)} of {len(faults)} faults"
        f"{f' (not for {listed(few)})' if few else ''}."
    )


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


def _panel(deciders: Sequence[Decider], fit: Sequence[Row]) -> Parts:
    """What `calibrated` decides by."""
    lines = [
        [
            " and ".join(map(with_name, d.candidate.letters)),
            f"{'>' if d.candidate.above else '<'} {d.threshold:g}{', the whole interval' if d.candidate.test else ''}",
            f"{d.candidate.guard:g}",
            ", ".join(fault for fault in FAULTS if d.candidate.meant_for(fault)),
        ]
        for d in deciders
    ]
    return [
        Heading("The panel calibrated"),
        "A network fails if one of these fires. It is incomplete if nothing fires, no linear readout was measured and "
        "(h) depth gain shows no gain. Which diagnostics decide, and at which thresholds, was fitted on the part to "
        "fit on, by a rule that was written down before (results/validity/RULE.md; walkback lab validity --fit). The "
        "last but one column has the tightest threshold that this rule allows, whatever the networks say.",
        Grid(("diagnostic", "fires", "tightest allowed", "meant for"), lines, "llrl"),
        *_not_deciding(deciders, fit),
        OLDER_WORDS,
    ]


def _not_deciding(deciders: Sequence[Decider], fit: Sequence[Row]) -> list[str]:
    """Why diagnostics that are meant for a fault are not in the panel's table."""
    chosen = {letter for decider in deciders for letter in decider.candidate.letters}
    if not chosen or not fit:
        return []
    depth = next(candidate for candidate in CANDIDATES if candidate.diagnostics == ("depth_gain",))
    scores = [score for row in healthy(fit) if (score := depth.of(row)) is not None]
    fired = sum(score > depth.score(depth.guard) for score in scores)
    taken = " and ".join(f"({letter})" for letter in ("h", "r", "w") if letter in chosen)
    return [
        "Some diagnostics are meant for a fault and do not decide. (b) and (d) keep their published thresholds and "
        "inform, as (c) does: a report shows them, and they change no verdict. (h) depth gain alone was dropped, "
        f"because it fires on {fired} healthy networks of the part to fit on. And of (h), (r) and (w), alone or "
        f"joined, the rule takes one candidate only, the one that adds most: {taken or 'none'}."
    ]


def _half(half: Half, title: str, rows: Sequence[Row], fit: Sequence[Row]) -> Parts:
    if not rows:
        return [Heading(title), "Not scored yet."]
    warned = "Thresholds were chosen on these networks, so calibrated looks better here than it is. "
    return [
        Heading(title),
        (warned if half == "fit" else "")
        + f"{len(healthy(rows))} healthy networks and {len(rows) - len(healthy(rows))} with a fault{_none_can(rows)}. "
        + made(rows, half),
        Heading("Healthy networks that are flagged", 3),
        "A task “needs depth” where a linear model of the input cannot do it. A frozen baseline is “at the ceiling” "
        f"where it makes less than {100 * CEILING_ERROR:g} % errors, so that training the blocks can gain little.",
        score_tables.false_alarms(rows),
        Heading("Networks with a fault that are found", 3),
        "The last column counts the networks that a diagnostic meant for the fault has failed; the others were found "
        "by something else that the fault brings along. A network of broken_reference in fp16, for one, has a large "
        "stream, so that its gradient underflows, and (a) and (t) see that stream.",
        score_tables.found_faults(rows),
        Heading("Found at each setting of the dial", 3),
        score_tables.dials(rows),
        Heading("How well each quantity tells a fault: area under the ROC curve", 3),
        "1 is perfect, .5 is chance. A dash: not measured on one of the two groups. In brackets: the quantity's "
        "diagnostic is meant for this fault.",
        score_tables.areas(rows),
        Heading("An architecture left out", 3),
        "The whole rule of calibrated again on the part to fit on without one group, and what it does on that group.",
        score_tables.left_out(fit, rows, "architecture"),
        Heading("A data set left out", 3),
        score_tables.left_out(fit, rows, "task"),
    ]


def _none_can(rows: Sequence[Row]) -> str:
    """How many of the faulty networks no diagnostic is meant to find."""
    hopeless = {f: len(of_fault(rows, f)) for f in FAULTS if not condition_named(f).found_by and of_fault(rows, f)}
    faulty = len(rows) - len(healthy(rows))
    told = "; ".join(
        f"{number} of them are {fault}, which no diagnostic can find" for fault, number in hopeless.items()
    )
    return f" ({told}, so rates are of the other {faulty - sum(hopeless.values())})" if told else ""
