"""(c) Direction drift: do different batches give the same mean gradient direction?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from walkback.protocol.diagnostics.base import ReadingMaker
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.wording import figure as written

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from walkback.protocol.capture import Capture

REASON = "BP grad direction is drift-dominated"
GROUP = 128
"""Samples per group, whatever the loader's batches are: the published (c) is for batches of this size."""


@dataclass(frozen=True)
class GroupSums:
    """Sums over the samples of one group, all sites side by side."""

    total: Tensor
    """Σ g, (D_0 + … + D_L,)."""
    squares: Tensor
    """Σ ‖g‖² per site."""
    count: int

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(self.total + other.total, self.squares + other.squares, self.count + other.count)


@dataclass(frozen=True)
class Part:
    """The groups that some batches touched, by number, how wide each site is, and which is the network's middle."""

    groups: dict[int, GroupSums]
    widths: tuple[int, ...]
    middle: int | None


@dataclass(frozen=True)
class DirectionDrift:
    """The mean cosine over all pairs of group-mean gradients at one site; beside it the drift share ρ.

    The cosine of two means of n samples is near nρ / (nρ + 1 − ρ), so it depends on n; groups of 128 samples
    are formed in order, and ρ, which depends on no n, is shown with it.
    """

    stability_drift_ceiling: float = 0.30
    drift_share_ceiling: float | None = None
    letter: ClassVar[str] = "c"
    name: ClassVar[str] = "direction drift"

    @classmethod
    def from_thresholds(cls, thresholds: DiagnosticThresholds) -> DirectionDrift:
        """Take both ceilings."""
        return cls(thresholds.stability_drift_ceiling, thresholds.drift_share_ceiling)

    @staticmethod
    def measure(capture: Capture) -> Part:
        """Group sums of one batch, split where a group ends."""
        from torch import cat, float64

        from walkback.protocol.distributed import first_from, number_of

        squares = capture.direction_norms.square()
        groups, start = {}, 0
        while start < capture.samples:
            number = number_of(capture.offset + start) // GROUP
            stop = min(capture.samples, first_from((number + 1) * GROUP) - capture.offset)
            total = cat([vectors[start:stop].sum(dim=0, dtype=float64) for vectors in capture.grad_vectors])
            groups[number] = GroupSums(total, squares[:, start:stop].sum(dim=1), stop - start)
            start = stop
        return Part(groups, tuple(v.shape[1] for v in capture.grad_vectors), capture.middle)

    @staticmethod
    def merge(left: Part, right: Part) -> Part:
        """Add up what both have of a group."""
        groups = dict(left.groups)
        for number, sums in right.groups.items():
            groups[number] = groups[number] + sums if number in groups else sums
        return Part(groups, left.widths, left.middle)

    @staticmethod
    def figures(part: Part) -> dict[str, Any]:
        """(c) and ρ at every site with jackknife intervals, and (c) at the middle site."""
        import numpy as np
        from torch import stack

        groups = [part.groups[number] for number in sorted(part.groups)]
        totals = stack([g.total for g in groups]).cpu().numpy()
        squares = stack([g.squares for g in groups]).cpu().numpy()
        sizes = np.array([g.count for g in groups], dtype=np.float64)
        edges = np.cumsum((0, *part.widths))
        # A diverged network has infinite sums; they become NaN figures here and fire as such.
        with np.errstate(invalid="ignore", over="ignore"):
            sites = [
                _site_figures(totals[:, edges[i] : edges[i + 1]], squares[:, i], sizes, i == part.middle)
                for i in range(len(part.widths))
            ]
        stabilities = [site.stability for site in sites]
        shares = [site.share for site in sites]
        intervals = [site.share_interval for site in sites]
        return {
            "groups": int((sizes == GROUP).sum()),
            "stability_layer": part.middle,
            "cross_batch_stability": None if part.middle is None else stabilities[part.middle],
            "cross_batch_stability_interval": None if part.middle is None else sites[part.middle].stability_interval,
            "site_stabilities": None if None in stabilities else stabilities,
            "drift_shares": None if None in shares else shares,
            "drift_share_intervals": None if None in intervals else intervals,
        }

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where (c), or ρ if a ceiling for it was given, is above its ceiling."""
        if self.drift_share_ceiling is not None:
            return self._judge_share(measured, self.drift_share_ceiling)
        make = ReadingMaker(self.letter, self.name, ">", self.stability_drift_ceiling)
        figure, site = measured.cross_batch_stability, measured.stability_layer
        if figure is None:
            return make.not_measured(self._why_missing(measured))
        if figure - figure != 0:
            return make.non_finite("the batch-mean gradient holds NaN or Inf", figure, site)
        share = self._share_in_words(measured)
        return make.judged(
            figure,
            reason=REASON,
            fired="Batches agree on the mean gradient direction: a component shared by all samples shows. "
            f"{share} (c) tells drift from noise among failures; it is no clean detector, and healthy "
            "networks show it early in training.",
            passed=f"Batches do not share one gradient direction. {share}".strip(),
            interval=measured.cross_batch_stability_interval,
            site=site,
        )

    def _judge_share(self, measured: Measurements, ceiling: float) -> Reading:
        make = ReadingMaker(self.letter, "drift share", ">", ceiling)
        if measured.drift_shares is None:
            return make.not_measured("The drift share needs two samples or more whose gradients are not all zero.")
        if _left_out(measured):
            return make.not_measured(_left_out(measured))
        site = measured.stability_layer or 0
        figure = measured.drift_shares[site]
        if figure - figure != 0:
            return make.non_finite("the gradients hold NaN or Inf", figure, site)
        intervals = measured.drift_share_intervals
        words = f"{written(100 * figure)} % of the gradient's energy is a direction shared by all samples."
        return make.judged(
            figure, reason=REASON, fired=words, passed=words, site=site,
            interval=intervals[site] if intervals else None,
        )  # fmt: skip

    @staticmethod
    def _why_missing(measured: Measurements) -> str:
        if _left_out(measured):
            return _left_out(measured)
        if measured.groups is not None and measured.groups > 1:
            return "The batch-mean gradients are exactly zero and have no direction."
        if measured.groups is not None:
            return f"(c) needs two groups of {GROUP} samples; the batches gave {measured.groups}."
        return "The directions of batch-mean gradients were not measured."

    @staticmethod
    def _share_in_words(measured: Measurements) -> str:
        """How much drift there is, which (c) alone does not say."""
        if measured.drift_shares is None or measured.stability_layer is None:
            return ""
        share = measured.drift_shares[measured.stability_layer]
        amount = "under 1 %" if share < 0.01 else f"{written(100 * share)} %"
        return f"The drift share ρ is {written(share)}: {amount} of the gradient's energy is common to all samples."


def _left_out(measured: Measurements) -> str:
    """That the site to judge at was not measured, where that is so."""
    if measured.site_numbers is None or measured.last_site is None or measured.stability_layer is not None:
        return ""
    return f"(c) is read at the middle site, {measured.last_site // 2}, which was not among the measured ones."


@dataclass(frozen=True)
class SiteFigures:
    """(c) and ρ at one site, with their intervals."""

    stability: float | None
    stability_interval: Any
    """None at the sites at which (c) is not judged."""
    share: float | None
    share_interval: Any


def _site_figures(
    totals: NDArray[np.float64], squares: NDArray[np.float64], sizes: NDArray[np.float64], judged: bool
) -> SiteFigures:
    """One site from its group sums (K, D), group sums of ‖g‖² (K,) and group sizes (K,)."""
    import numpy as np

    from walkback.protocol.uncertainty import jackknife_interval

    largest = np.abs(totals).max(initial=0.0)
    # Squares of fp64 gradients can leave the range; ratios do not care about a common factor.
    scale = largest if np.isfinite(largest) and largest > 0 else 1.0
    gram = (totals / scale) @ (totals / scale).T
    squares = squares / scale / scale
    share = drift_share(gram, squares, sizes)
    whole = sizes == GROUP
    stability, interval = _stability(gram if whole.all() else gram[np.ix_(whole, whole)], judged)
    if share is None:
        return SiteFigures(stability, interval, None, None)
    without_each = _leave_one_out_shares(gram, squares, sizes)
    return SiteFigures(stability, interval, share, jackknife_interval(share, without_each, sizes))


def drift_share(gram: NDArray[np.float64], squares: NDArray[np.float64], sizes: NDArray[np.float64]) -> float | None:
    """ρ = (‖Σg‖² − Σ‖g‖²) / (N(N−1)) over the mean of ‖g‖²: pairs of distinct samples only."""
    samples, energy = sizes.sum(), squares.sum()
    if samples < 2 or energy == 0:
        return None
    return float((gram.sum() - energy) / (samples - 1) / energy)


def _leave_one_out_shares(
    gram: NDArray[np.float64], squares: NDArray[np.float64], sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """ρ without each group in turn; NaN where too little is left."""
    import numpy as np

    pairs = gram.sum() - 2 * gram.sum(axis=1) + np.diag(gram)
    samples, energy = sizes.sum() - sizes, squares.sum() - squares
    enough = (samples > 1) & (energy > 0)
    shares: NDArray[np.float64] = np.full(len(sizes), np.nan)
    np.divide(pairs - energy, (samples - 1) * energy, out=shares, where=enough)
    return shares


def _stability(gram: NDArray[np.float64], with_interval: bool) -> tuple[float | None, Any]:
    """(mean cosine over pairs of groups, its jackknife interval where that is wanted)."""
    import numpy as np

    from walkback.protocol.uncertainty import jackknife_interval

    groups = len(gram)
    if groups < 2:
        return None, None
    lengths = np.sqrt(np.diag(gram))
    if (lengths == 0).any():
        return None, None
    cosines = gram / lengths[:, None] / lengths
    np.fill_diagonal(cosines, 0.0)
    rows, total = cosines.sum(axis=1), cosines.sum()
    estimate = float(total / (groups * (groups - 1)))
    if groups < 3 or not with_interval:
        return estimate, None
    left_out = (total - 2 * rows) / ((groups - 1) * (groups - 2))
    return estimate, jackknife_interval(estimate, left_out, np.full(groups, float(GROUP)))
