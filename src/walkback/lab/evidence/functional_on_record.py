"""The functional tests in a run's file: the one place that knows how they are written there.

Of the conventions that a file holds, the published ones: steps of ε = 1e-3 as they are, η = 0.01, and credit with RMS 1
in each sample, because the source study normalises the credit of every local method.
"""

from __future__ import annotations

import math
from typing import Any

from walkback.lab.evidence.deciding import mean
from walkback.lab.evidence.results import NotOnRecordError, Run

RHO = ("perturbation", "absolute", "credit", "unit_rms", "rho")
NUDGE = ("nudge", "unit_rms", "0.01", "mean")


def deep_rho(run: Run) -> float:
    """ρ, the mean over the blocks behind the first: how credit told the change of the loss in random directions."""
    return _behind_the_first(run, RHO)


def deep_nudge(run: Run) -> float:
    """The change of the loss under h_l − η·a_l, η = 0.01, the mean over the blocks behind the first."""
    return _behind_the_first(run, NUDGE)


def loss_decrease(run: Run) -> float:
    """The training loss of epoch 1 minus that of the last epoch."""
    trace = run.result.get("trace") or []
    first, last = (_number(run, "loss", entry.get("loss")) for entry in (trace[1:2] or [{}]) + (trace[-1:] or [{}]))
    return first - last


def _behind_the_first(run: Run, path: tuple[str, ...]) -> float:
    """The mean over h_1 … h_{L−1}: blocks read these."""
    found: Any = run.result.get("functional")
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list) or len(found) < 3:
        raise NotOnRecordError(f"{run.file} has no {path[0]} per site")
    return mean(_number(run, path[0], value) for value in found[1:-1])


def _number(run: Run, name: str, value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise NotOnRecordError(f"{run.file} has no {name} that is a number")
    return float(value)
