"""The functional tests in a run's file: the one place that knows how they are written there."""

from __future__ import annotations

import math

from walkback.evidence.reading import mean
from walkback.evidence.results import NotOnRecordError, Run


def deep_rho(run: Run) -> float:
    """ρ, the mean over the blocks behind the first: how credit told the change of the loss in random directions."""
    return _behind_the_first(run, "rho")


def deep_nudge(run: Run) -> float:
    """The change of the loss under h_l − η·a_l, η = 0.01, the mean over the blocks behind the first."""
    return _behind_the_first(run, "nudge")


def loss_decrease(run: Run) -> float:
    """The training loss of epoch 1 minus that of the last epoch."""
    return _number(run, "training_loss_decrease", _tests(run).get("training_loss_decrease"))


def _tests(run: Run) -> dict[str, object]:
    """What the run's file holds of them."""
    tests = run.result.get("functional")
    if not isinstance(tests, dict):
        raise NotOnRecordError(f"{run.file} has no functional tests")
    return tests


def _behind_the_first(run: Run, name: str) -> float:
    """The mean over h_1 … h_{L−1}: blocks read these."""
    sites = _tests(run).get(name)
    if not isinstance(sites, list) or len(sites) < 3:
        raise NotOnRecordError(f"{run.file} has no {name} per site")
    return mean(_number(run, name, value) for value in sites[1:-1])


def _number(run: Run, name: str, value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise NotOnRecordError(f"{run.file} has no {name} that is a number")
    return float(value)
