"""(c) and the drift share ρ at every site, from the sums of gradients over groups of samples. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from walkback.protocol.drift_share import GROUP_SIZE
from walkback.protocol.uncertainty import jackknife_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray


def group_fields(
    totals: NDArray[np.float64],
    squares: NDArray[np.float64],
    sizes: NDArray[np.float64],
    widths: Sequence[int],
    middle: int | None,
) -> dict[str, Any]:
    """(c) and ρ at every site with jackknife intervals, and (c) at the middle site, as fields of `Measurements`.

    Of the groups: Σ g with all sites side by side, (K, D_0 + … + D_L), Σ ‖g‖² per site, (K, S), and their sizes, (K,).
    """
    # A diverged network has infinite sums; they become NaN figures here and fire as such.
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        grams, energies = _products(totals, squares, widths)
        shares, share_intervals = _drift_shares(grams, energies, sizes)
        stabilities, interval = _stabilities(grams, sizes == GROUP_SIZE, middle)
    return {
        "groups": int((sizes == GROUP_SIZE).sum()),
        "stability_layer": middle,
        "cross_batch_stability": None if middle is None else stabilities[middle],
        "cross_batch_stability_interval": interval,
        "site_stabilities": None if None in stabilities else stabilities,
        "drift_shares": None if None in shares else shares,
        "drift_share_intervals": None if None in share_intervals else share_intervals,
    }


def _products(
    totals: NDArray[np.float64], squares: NDArray[np.float64], widths: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per site the products of the groups' sums with each other, (S, K, K), and the groups' Σ‖g‖², (S, K).

    Both to a common factor for each site: squares of fp64 gradients can leave the range, and ratios do not care.
    """
    grams, energies = [], []
    for site, end in enumerate(np.cumsum(widths)):
        own = totals[:, end - widths[site] : end]
        largest = np.abs(own).max(initial=0.0)
        scale = largest if np.isfinite(largest) and largest > 0 else 1.0
        scaled = own / scale
        grams.append(scaled @ scaled.T)
        energies.append(squares[:, site] / scale / scale)
    return np.stack(grams), np.stack(energies)


def _drift_shares(
    grams: NDArray[np.float64], energies: NDArray[np.float64], sizes: NDArray[np.float64]
) -> tuple[list[float | None], list[Any]]:
    """ρ at each site and its interval: (‖Σg‖² − Σ‖g‖²) / (N(N−1)) over the mean of ‖g‖², distinct samples only."""
    pairs, energy, samples = grams.sum(axis=(1, 2)), energies.sum(axis=1), sizes.sum()
    shares = (pairs - energy) / (samples - 1) / energy
    # The same without each group in turn; NaN where too little is left.
    left_pairs = pairs[:, None] - 2 * grams.sum(axis=2) + np.diagonal(grams, axis1=1, axis2=2)
    left_samples, left_energy = samples - sizes, energy[:, None] - energies
    enough = (left_samples > 1) & (left_energy > 0)
    left_out = np.where(enough, (left_pairs - left_energy) / ((left_samples - 1) * left_energy), np.nan)
    known = (samples >= 2) & (energy != 0)
    values = [float(share) if there else None for share, there in zip(shares, known, strict=True)]
    intervals = [
        None if value is None else jackknife_interval(value, left, sizes)
        for value, left in zip(values, left_out, strict=True)
    ]
    return values, intervals


def _stabilities(
    grams: NDArray[np.float64], whole: NDArray[np.bool_], judged: int | None
) -> tuple[list[float | None], Any]:
    """The mean cosine over pairs of whole groups at each site, and its jackknife interval at the judged one."""
    groups = int(whole.sum())
    if groups < 2:
        return [None] * len(grams), None
    grams = grams[:, whole][:, :, whole]
    lengths = np.sqrt(np.diagonal(grams, axis1=1, axis2=2))
    cosines = grams / lengths[:, :, None] / lengths[:, None, :]
    cosines[:, range(groups), range(groups)] = 0.0
    rows, totals = cosines.sum(axis=2), cosines.sum(axis=(1, 2))
    directed = (lengths != 0).all(axis=1)
    pairs = groups * (groups - 1)
    found = [float(total / pairs) if there else None for total, there in zip(totals, directed, strict=True)]
    estimate = None if judged is None else found[judged]
    if judged is None or estimate is None or groups < 3:
        return found, None
    left_out = (totals[judged] - 2 * rows[judged]) / ((groups - 1) * (groups - 2))
    return found, jackknife_interval(estimate, left_out, np.full(groups, float(GROUP_SIZE)))
