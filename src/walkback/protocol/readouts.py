"""Linear readouts: ridge regression of one-hot classes, cross-validated, in closed form and fp64. No torch.

Every sample is answered by a readout that was fitted without it. The strength of the ridge is chosen on the fitted
samples alone, by their leave-one-out error, which has a closed form too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Whole = NDArray[np.int64]

FOLDS = 5
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Of the ridge, per fitted sample, for features of variance 1."""
LOST = 1e-12
"""Directions whose variance is a smaller share of the largest are rounding."""


def fold_of(positions: Whole, folds: int = FOLDS) -> Whole:
    """The fold of each sample, from a hash of its position alone: how samples are batched changes nothing.

    The finalizer of splitmix64, modulo the number of folds.
    """
    mixed = positions.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    found: Whole = (mixed % np.uint64(folds)).astype(np.int64)
    return found


def answered_rightly(features: Array, labels: Whole, classes: int, folds: int = FOLDS) -> NDArray[np.bool_]:
    """Whether a readout that never saw a sample answers it rightly: (N, d), (N,) → (N,)."""
    fold = fold_of(np.arange(len(labels)), folds)
    targets = np.eye(classes)[labels]
    right = np.zeros(len(labels), dtype=np.bool_)
    for number in range(folds):
        held = fold == number
        if held.any() and not held.all():
            scores = ridge_scores(features[~held], targets[~held], features[held])
            right[held] = scores.argmax(axis=1) == labels[held]
    return right


def ridge_scores(seen: Array, targets: Array, unseen: Array) -> Array:
    """What a ridge regression on some samples says of others: (n, d), (n, C), (m, d) → (m, C)."""
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    x, centre = (seen - mean) / scale, targets.mean(axis=0)
    directions, variances, scores = _principal(x)
    y = targets - centre
    projected = scores.T @ y
    strength = min(STRENGTHS, key=lambda each: _left_out_error(scores, variances, projected, y, each * len(x)))
    weights = directions @ (projected / (variances + strength * len(x))[:, None])
    answers: Array = ((unseen - mean) / scale) @ weights + centre
    return answers


def _principal(x: Array) -> tuple[Array, Array, Array]:
    """Directions V (d, r), variances s (r,) and scores X V (n, r), from the smaller of the two Gram matrices."""
    samples, width = x.shape
    if width <= samples:
        variances, directions = np.linalg.eigh(x.T @ x)
    else:
        variances, left = np.linalg.eigh(x @ x.T)
    kept = variances > LOST * max(float(variances[-1]), 0.0)
    variances = variances[kept]
    directions = x.T @ (left[:, kept] / np.sqrt(variances)) if width > samples else directions[:, kept]
    return directions, variances, x @ directions


def _left_out_error(scores: Array, variances: Array, projected: Array, y: Array, strength: float) -> float:
    """Σ over samples of the squared error of a fit without them: residual / (1 − leverage)."""
    shrunk = 1 / (variances + strength)
    residuals = y - scores @ (shrunk[:, None] * projected)
    leverages = (scores * scores) @ shrunk + 1 / len(y)  # the mean of the targets is fitted too
    return float(((residuals / (1 - leverages)[:, None]) ** 2).sum())
