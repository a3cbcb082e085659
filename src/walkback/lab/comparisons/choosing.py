"""Which of its rates an arm goes on with: by validation samples alone, and by one rule for all arms. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from walkback.errors import RecordError
from walkback.lab.comparisons.plan import Comparison
from walkback.lab.grids.grid import GridRow
from walkback.lab.runs.store import RunStore
from walkback.protocol.json_codec import number

Criterion = Literal["accuracy", "loss"]
NOT_FINISHED = "not finished"


class Tried(NamedTuple):
    """One rate of an arm and what came of it."""

    rate: float
    run: str
    command: str
    error: str
    accuracy: float | None = None
    loss: float | None = None
    tokens: bool = False
    ended: str = ""
    """Why the run stopped early, if it did."""
    cut: Mapping[str, Any] | None = None
    """Which validation samples it was scored on."""


def tried(comparison: Comparison, arm: GridRow, store: RunStore, errors: Mapping[str, str]) -> list[Tried]:
    """Every rate of an arm, lowest first."""
    return [_tried(comparison, arm, rate, store, errors) for rate in comparison.rates(arm)]


def _tried(comparison: Comparison, arm: GridRow, rate: float, store: RunStore, errors: Mapping[str, str]) -> Tried:
    config = comparison.tuning_run(arm, rate)
    stored = store.run(config)
    if not stored.finished:
        return Tried(rate, config.run_id, config.command, errors.get(config.run_id, NOT_FINISHED))
    result = stored.result()
    if result.get("test_reads") != 0:
        raise RecordError(f"run {config.run_id} tries a rate, and does not say that it left the test split unread.")
    loss = result.get("loss")
    return Tried(
        rate, config.run_id, config.command, "", result["accuracy"], None if loss is None else number(loss),
        "test_answers" in result, result["ended"], result["validation"],
    )  # fmt: skip


def criterion_of(rates: Sequence[Tried]) -> Criterion:
    """The loss where every token has an answer and the head gives them, else the accuracy."""
    return "loss" if all(each.tokens and each.loss is not None for each in rates) else "accuracy"


def best_of(rates: Sequence[Tried]) -> Tried | None:
    """The best by the criterion; of equals the one nearest to the default, then the lower. None until all are there."""
    if any(each.error for each in rates):
        return None
    by, middle = criterion_of(rates), (len(rates) - 1) / 2
    ranked = [(_badness(each, by), abs(place - middle), place) for place, each in enumerate(rates)]
    return rates[min(ranked)[2]]


def _badness(each: Tried, by: Criterion) -> float:
    value = each.loss if by == "loss" else -(each.accuracy or 0.0)
    return value if value is not None and math.isfinite(value) else math.inf


def edge_remark(rates: Sequence[Tried], best: Tried | None) -> str:
    """What to say of a best rate at the end of the grid; nothing of one inside it."""
    if best is None:
        return ""
    if len(rates) == 1:
        return "One rate alone was tried, so nothing was chosen."
    for place, side, beyond in ((0, "lowest", "below"), (-1, "highest", "above")):
        if best.rate == rates[place].rate:
            return f"The best rate, {best.rate:g}, is the {side} of {len(rates)}: a better one may lie {beyond} it."
    return ""
