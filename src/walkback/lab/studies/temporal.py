"""When does each diagnostic fire first? The protocol at every epoch of every run, from epoch 1 on.

`first` is the first epoch at which a diagnostic fires, `for_good` the first from which it fires to the end: (c) comes
and goes in healthy networks, and (d), judged against the baseline at the same epoch, fires early in all of them. (b)
is given in two conventions: ‖g‖ of a loss averaged over 128 samples, as everywhere in this project, and over 1024,
which is about what the published temporal record used: its untrained ‖g‖ is 9.8e-4, where over 128 it is 8e-3. Epoch
0 is a study of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun, mean_alignment
from walkback.lab.studies.base import Parts, Result, Study, number
from walkback.present.numbers import percent, written
from walkback.present.page import Grid
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.panels.april2026 import APRIL_2026
from walkback.protocol.records import State

LARGE_BATCH = 1024
FLOOR = GradientFloor.letter
CONVENTIONS = {f"{FLOOR} at {LARGE_BATCH}": 128 / LARGE_BATCH}
FIRST_EPOCHS = 3
"""What counts as the first epochs, for Γ before anything has gone wrong."""


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each run."""
    return {"large_batch": LARGE_BATCH, "runs": [_run(run) for run in audit.traces]}


def states(run: TracedRun) -> dict[str, list[State]]:
    """What each diagnostic says at the epochs from 1 on; (b) also in the other convention.

    Those of the published panel, whether or not they were measured, and others that were at some epoch.
    """
    epochs = range(1, len(run.records))
    reports = [run.report(epoch) for epoch in epochs]
    measured = {r.letter for report in reports for r in report.readings if r.state in (State.PASS, State.FIRE)}
    published = [member.letter for member in APRIL_2026.members]
    others = {r.letter: None for report in reports for r in report.readings if r.letter in measured - {*published}}
    found = {letter: [report.reading(letter).state for report in reports] for letter in (*published, *others)}
    for key, factor in CONVENTIONS.items():
        found[key] = [run.report(epoch, factor).reading(FLOOR).state for epoch in epochs]
    return {key: found[key] for key in _keys(found)}


def _keys(found: Iterable[str]) -> list[str]:
    """The letters in their order, with (b) in the other convention behind (b)."""
    letters = [key for key in found if key not in CONVENTIONS]
    return [key for letter in letters for key in (letter, *(CONVENTIONS if letter == FLOOR else ()))]


def fired_at(run: TracedRun) -> dict[str, list[int]]:
    """The epochs, from 1 on, at which each diagnostic fires."""
    return {key: _firing_epochs(each) for key, each in states(run).items()}


def _firing_epochs(each: Sequence[State]) -> list[int]:
    return [epoch for epoch, state in enumerate(each, start=1) if state is State.FIRE]


def for_good(fired: Sequence[int], last: int) -> int | None:
    """The first epoch from which it fires at every epoch to the last."""
    start = None
    for epoch in reversed(fired):
        if epoch != (last if start is None else start - 1):
            break
        start = epoch
    return start


def _run(run: TracedRun) -> dict[str, Any]:
    found = states(run)
    fired = {key: _firing_epochs(each) for key, each in found.items()}
    return {
        "label": run.label,
        "seed": run.seed,
        "id": run.run_id,
        "epochs": run.epochs,
        "measured": {key: sum(state in (State.FIRE, State.PASS) for state in each) for key, each in found.items()},
        "first": {key: epochs[0] if epochs else None for key, epochs in fired.items()},
        "for_good": {key: for_good(epochs, run.epochs) for key, epochs in fired.items()},
        "final_accuracy": run.records[-1].accuracy,
        "alignment": _range(run, lambda record: mean_alignment(record.alignment)),
        "deep_alignment": _range(run, lambda record: record.deep_alignment),
    }


def _range(run: TracedRun, of: Callable[[Any], float | None]) -> dict[str, float | None]:
    """The ends over the epochs, and the mean over the first few; none where some epoch has no such figure."""
    values = [of(record) for record in run.records[1:]]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known or len(known) < len(values):
        return {"low": None, "high": None, "first_epochs": None}
    early = known[:FIRST_EPOCHS]
    return {"low": min(known), "high": max(known), "first_epochs": sum(early) / len(early)}


def paragraphs(result: Result) -> Parts:
    """First firing epochs, with the epoch from which it stays where that is another."""
    keys = _keys(dict.fromkeys(key for run in result["runs"] for key in run["first"]))
    named = [f"({FLOOR}) at {LARGE_BATCH}" if key in CONVENTIONS else f"({key})" for key in keys]
    headings = ("method", "seed", "epochs", *named, "Γ over the run", "accuracy")
    note = "“3; 8 on” fires first at epoch 3 and at every epoch from 8 on; “3; not to the end” does not stay."
    return [Grid(headings, [_row(run, keys) for run in result["runs"]], "l" + "r" * (len(headings) - 1)), note]


def _row(run: Result, keys: Sequence[str]) -> list[str]:
    firsts = [_when(run, key) for key in keys]
    gamma = run["alignment"]
    span = "–" if gamma["low"] is None else f"{written(number(gamma['low']))} to {written(number(gamma['high']))}"
    return [run["label"], str(run["seed"]), str(run["epochs"]), *firsts, span, percent(run["final_accuracy"])]


def _when(run: Result, key: str) -> str:
    first, stays, measured = (run[name].get(key) for name in ("first", "for_good", "measured"))
    if not measured:
        return "not measured"
    if first is None:
        return "never" if measured == run["epochs"] else f"at none of {measured} measured"
    if stays is None:
        return f"{first}; not to the end"
    return str(first) if stays == first else f"{first}; {stays} on"


STUDY = Study(
    "temporal",
    "When does each diagnostic fire first?",
    "Every network was judged after each epoch of its training, from the first on, and the table gives the epoch at "
    "which each test first fires. (d) is against the frozen baseline at the same epoch. (b) is given twice: by the "
    "gradient of a loss averaged over 128 samples, as in the published audit, and over "
    f"{LARGE_BATCH}, as about in the published record over time, where it is an eighth as large and fires sooner.",
    answer,
    paragraphs,
)
