"""Accuracies over seeds, and differences in pairs: by seed, and by sample. All statistics are SciPy's. No torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEVEL = 0.95
Bits = Sequence["NDArray[np.bool_]"]
"""For each seed, which answers were right: (N,), or (N, T) where every token has one."""


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """The mean over seeds with Student's 95 % interval; with one seed there is none."""
    zeros = np.zeros(len(values))
    return {"mean": float(np.mean(values)), "seeds": len(values), **_interval(np.asarray(values, float), zeros)}


def paired(first: Bits, second: Bits) -> dict[str, Any]:
    """Accuracy of the first less that of the second, with two intervals of Student's paired test.

    `seeds`: over the seeds, each of which both have: what other seeds would give. `samples`: over the test samples,
    each with its share of right answers over the seeds (and its tokens): what other samples would give.
    """
    one, other = (np.stack([_per_sample(bits) for bits in each]) for each in (first, second))
    difference = one.mean(axis=1) - other.mean(axis=1)
    return {
        "mean": float(difference.mean()),
        "each": [float(value) for value in difference],
        "seeds": _interval(one.mean(axis=1), other.mean(axis=1)),
        "samples": _interval(one.mean(axis=0), other.mean(axis=0)),
    }


def _per_sample(bits: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The share of right answers of each sample: tokens of one passage are no independent samples."""
    shares: NDArray[np.float64] = bits.reshape(len(bits), -1).mean(axis=1)
    return shares


def _interval(first: NDArray[np.float64], second: NDArray[np.float64]) -> dict[str, float | None]:
    if len(first) < 2:
        return {"low": None, "high": None}
    if np.ptp(first - second) == 0:  # no spread at all, of which SciPy says NaN
        return {"low": float((first - second)[0]), "high": float((first - second)[0])}
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of nearly equal values, which are meant here
        found = stats.ttest_rel(first, second).confidence_interval(LEVEL)
    return {"low": float(found.low), "high": float(found.high)}
