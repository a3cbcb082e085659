"""What would stopping at the first firing have saved, and what accuracy would it have cost?

Three rules, each applied from epoch 1 on: (a) or (b); (a) or (b) with ‖g‖ in the published temporal convention;
and (a), (b) or (c), which shows what a diagnostic that fires on healthy networks would do. Saved is the share of
epochs, and of seconds, after the stop; the cost is the final accuracy minus that at the stop, in points: positive
where training on would have paid. The learning rate at the stop had not come to its end, so the cost is an upper one.
"""

from __future__ import annotations

from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun
from walkback.lab.studies.base import Parts, Result, Study, number
from walkback.lab.studies.temporal import LARGE_BATCH, fired_at
from walkback.present.numbers import percent
from walkback.present.page import Grid, Heading
from walkback.protocol.diagnostics.direction_drift import DirectionDrift
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth

GROWTH, FLOOR, DRIFT = ResidualGrowth.letter, GradientFloor.letter, DirectionDrift.letter
RULES: dict[str, tuple[str, ...]] = {
    f"({GROWTH}) or ({FLOOR})": (GROWTH, FLOOR),
    f"({GROWTH}) or ({FLOOR}), ‖g‖ at {LARGE_BATCH}": (GROWTH, f"{FLOOR} at {LARGE_BATCH}"),
    f"({GROWTH}), ({FLOOR}) or ({DRIFT})": (GROWTH, FLOOR, DRIFT),
}


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each run, with every rule's stop."""
    return {"runs": [_run(run) for run in audit.traces]}


def _run(run: TracedRun) -> dict[str, Any]:
    fired = fired_at(run)
    accuracies = [record.accuracy for record in run.records]
    firsts = {rule: min((fired[key][0] for key in keys if fired[key]), default=None) for rule, keys in RULES.items()}
    return {
        "label": run.label,
        "seed": run.seed,
        "id": run.run_id,
        "epochs": run.epochs,
        "final_accuracy": accuracies[-1],
        "best_accuracy": max(accuracies),
        "stops": {rule: None if epoch is None else _stop(run, epoch) for rule, epoch in firsts.items()},
    }


def _stop(run: TracedRun, epoch: int) -> dict[str, Any]:
    seconds = [record.seconds for record in run.records]
    at_stop = run.records[epoch].accuracy
    return {
        "epoch": epoch,
        "saved": 1 - epoch / run.epochs,
        "saved_seconds": round(sum(seconds[epoch + 1 :]), 1),
        "accuracy": at_stop,
        "cost_pp": 100 * (run.records[-1].accuracy - at_stop),
    }


def paragraphs(result: Result) -> Parts:
    """One table for each rule."""
    parts: list[str | Grid | Heading] = []
    headings = ("method", "seed", "stops at", "saved", "accuracy there", "at the end", "cost pp")
    for rule in RULES:
        rows = [_row(run, run["stops"][rule]) for run in result["runs"]]
        parts += [Heading(f"Stop at {rule}", 3), Grid(headings, rows, "lrrrrrr")]
    return parts


def _row(run: Result, stop: Result | None) -> list[str]:
    name, final = [run["label"], str(run["seed"])], percent(run["final_accuracy"])
    if stop is None:
        return [*name, "never", "0 %", "–", final, "–"]
    where = f"{stop['epoch']} of {run['epochs']}"
    cost = f"{number(stop['cost_pp']):+.2f}"
    return [*name, where, f"{100 * stop['saved']:.0f} %", percent(stop["accuracy"]), final, cost]


STUDY = Study(
    "early-stop",
    "What would stopping at the first firing have saved and cost?",
    "Saved is the share of epochs after the stop; the cost is the final accuracy minus that at the stop, in points, "
    "positive where training on would have paid.",
    answer,
    paragraphs,
)
