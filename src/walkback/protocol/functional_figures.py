"""The figures of the functional tests, from how each sample's loss answered. No torch is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walkback.protocol.uncertainty import LEVEL, jackknife_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STEPS = ("absolute", "relative")
"""ε = 1e-3 as published; ε = 1e-3 · median ‖h_l‖ over samples."""
FORMS = ("raw", "unit_rms")
"""Credit as the method hands it over; with RMS 1 in each sample."""
RATES = (0.01, 0.003)
"""η: as published, and as in the published study of frozen blocks."""
DIRECTIONS = 32
EPSILON = 1e-3
"""The length of a step: as it is, which is published, and times the median ‖h_l‖ over samples."""
ROUNDING_DRAWS = 4
SEED = 20260619
"""Of the directions, which are the same in every measurement."""
SPREAD_FLOOR = 1e-12
"""Where either side spreads less, the published ρ is 0."""
GROUPS = 10
INTERVAL = f"{LEVEL:.0%}, delete-group jackknife over {GROUPS} groups of samples in their order, fewer of fewer samples"


@dataclass(frozen=True)
class Responses:
    """How the loss of each of B samples answered the moves at one site; a change is ℓ(moved) − ℓ(h_l)."""

    epsilons: tuple[float, ...]
    """The length of a step, one for each of `STEPS`."""
    hidden_norms: Array
    """‖h_l‖, (B,)."""
    credit_norms: Array
    """‖a_l‖, (B,)."""
    predicted: Array
    """⟨a_l, v⟩ for each direction, (B, forms, M)."""
    changes: Array
    """Of h_l + εv, (B, steps, M)."""
    nudged: Array
    """Of h_l − η a_l, (B, rates, forms)."""
    rounding: Array
    """How far the loss moves by rounding alone, (B,)."""

    def why_not(self) -> str:
        """What is not finite, and in how many samples; empty where all is."""
        samples = len(self.rounding)
        losses = [self.rounding, self.changes.reshape(samples, -1), self.nudged.reshape(samples, -1)]
        parts = {"h_l": [self.hidden_norms], "its credit": [self.credit_norms], "the loss behind it": losses}
        for name, values in parts.items():
            broken = int((~np.isfinite(np.column_stack(values)).all(axis=1)).sum())
            if broken:
                return f"{name} is not finite in {broken} of {samples} samples"
        return ""


@dataclass(frozen=True)
class Perturbation:
    """Whether credit told how the loss changed in random directions. Spreads are standard deviations (ddof 0)."""

    rho: float
    """ρ as published: 0 where a spread is under 1e-12."""
    correlation: float
    """The same without that rule; NaN where a side does not vary at all."""
    low: float
    high: float
    """The interval of `correlation`."""
    credit_spread: float
    """Of ⟨a_l, εv⟩."""


@dataclass(frozen=True)
class Step:
    """Steps of one length: what the loss did, and how each form of the credit told it."""

    epsilon: float
    loss_spread: float
    """Of ℓ(h_l + εv) − ℓ(h_l)."""
    at_rounding: float
    """The share of changes that are no larger than rounding."""
    credit: dict[str, Perturbation]


@dataclass(frozen=True)
class Nudge:
    """What a small step against the credit did to the loss."""

    mean: float
    standard_error: float
    at_rounding: float
    """The share of samples whose change is no larger than rounding."""


@dataclass(frozen=True)
class SiteFigures:
    """Both tests at one site, by step and form of the credit, and by form and rate."""

    hidden_norm: float
    credit_norm: float
    """Medians over samples."""
    perturbation: dict[str, Step]
    nudge: dict[str, dict[str, Nudge]]


def figures_of(seen: Responses) -> SiteFigures:
    """The figures of one site; `seen` is finite."""
    steps = zip(STEPS, seen.epsilons, seen.changes.swapaxes(0, 1), strict=True)
    return SiteFigures(
        hidden_norm=float(np.median(seen.hidden_norms)),
        credit_norm=float(np.median(seen.credit_norms)),
        perturbation={name: _step(seen, epsilon, changes) for name, epsilon, changes in steps},
        nudge={
            form: {f"{rate:g}": _nudge(changes, seen.rounding) for rate, changes in zip(RATES, rates, strict=True)}
            for form, rates in zip(FORMS, seen.nudged.T, strict=True)
        },
    )


def _step(seen: Responses, epsilon: float, changes: Array) -> Step:
    forms = zip(FORMS, seen.predicted.swapaxes(0, 1), strict=True)
    return Step(
        epsilon=epsilon,
        loss_spread=float(changes.std()),
        at_rounding=float((np.abs(changes) <= seen.rounding[:, None]).mean()),
        credit={form: perturbation(epsilon * predicted, changes) for form, predicted in forms},
    )


def perturbation(predicted: Array, changes: Array) -> Perturbation:
    """How the change that credit predicts and the change of the loss go together, both (B, M), pairs pooled."""
    correlation, groups = pearson(predicted, changes), groups_of(len(changes))
    left_out = left_out_of(predicted, changes, pearson)
    interval = jackknife_interval(correlation, left_out, np.array([len(g) for g in groups], dtype=np.float64))
    return Perturbation(
        rho=published_rho(predicted, changes),
        correlation=correlation,
        low=interval.low if interval else np.nan,
        high=interval.high if interval else np.nan,
        credit_spread=float(predicted.std()),
    )


def published_rho(predicted: Array, changes: Array) -> float:
    """ρ by the published rule: 0 where a spread is under 1e-12."""
    return 0.0 if min(predicted.std(), changes.std()) < SPREAD_FLOOR else pearson(predicted, changes)


def groups_of(samples: int) -> list[NDArray[np.int64]]:
    """The places of the samples in the groups that an interval leaves out, one after the other."""
    return np.array_split(np.arange(samples), min(GROUPS, samples))


def left_out_of(predicted: Array, changes: Array, rho: Callable[[Array, Array], float]) -> Array:
    """ρ without each group of samples; NaN where nothing is left."""
    kept = [(np.delete(predicted, g, axis=0), np.delete(changes, g, axis=0)) for g in groups_of(len(changes))]
    return np.array([rho(*pair) if pair[0].size else np.nan for pair in kept])


def pearson(left: Array, right: Array) -> float:
    """Pearson's correlation over all entries; NaN where there are none or one side does not vary."""
    if not left.size or not np.ptp(left) or not np.ptp(right):
        return float("nan")
    # By the largest deviation first: the squares of values under 1e-162 are lost.
    x, y = (values.ravel() - values.mean() for values in (left, right))
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


def _nudge(changes: Array, rounding: Array) -> Nudge:
    several = len(changes) > 1
    return Nudge(
        mean=float(changes.mean()),
        standard_error=float(changes.std(ddof=1) / len(changes) ** 0.5) if several else float("nan"),
        at_rounding=float((np.abs(changes) <= rounding).mean()),
    )
