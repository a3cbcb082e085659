"""(c) Direction drift: do different batches give the same mean gradient direction?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic, without_reference
from walkback.protocol.diagnostics.declare import Quantity, Scalar, Threshold, even_grid, log_grid
from walkback.protocol.drift_share import GROUP_SIZE as GROUP
from walkback.protocol.drift_share import SMALL_SHARE
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture


UNINFORMATIVE = 1.0
"""An interval of a cosine that is as wide as this says nothing: it is half of all there are."""

_AT_THE_DIAMOND = "(c) is judged at the diamond, and fires if it lies in the hatched part."


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


class DirectionDrift(Diagnostic):
    """The mean cosine over all pairs of group-mean gradients at one site; beside it the drift share ρ.

    The cosine of two means of n samples is near nρ / (nρ + 1 − ρ), so it depends on n; groups of 128 samples
    are formed in order, and ρ, which depends on no n, is shown with it.
    """

    letter = "c"
    title = "direction drift"
    question = "Do different batches give the same mean gradient direction?"
    meaning = "batch-mean gradients point in similar directions"
    subject = "the spread of gradient directions"
    fires_alone = (
        "Only (c) fires, which also happens on healthy networks: check the drift share ρ and the margin (d) before you "
        "conclude anything"
    )
    reason = "BP grad direction is drift-dominated"
    remedy = (
        "Look at the drift share ρ (0: samples pull in different directions, 1: all in the same). Near 0.003, which is "
        "enough for (c) to fire and common in healthy networks, (c) is weak evidence; far above it, take (c) seriously."
    )
    thresholds = {  # noqa: RUF012
        "stability_drift_ceiling": Threshold(
            0.30, ">", "cosine of group means", least=-1, most=1, sweep=even_grid(0, 0.95, 0.05),
            short="cosine", quantity="site_stabilities",
        ),
        "drift_share_ceiling": Threshold(
            None, ">", "drift share ρ", least=-1, most=1, sweep=log_grid(-5, 0), replaces="stability_drift_ceiling",
            short="by drift share ρ", quantity="drift_shares",
        ),
    }  # fmt: skip
    quantities = (
        Quantity("site_stabilities", "cosine of group means", "cosine", per_site=True, traced=True, heading="(c)",
                 meaning="cosine between group-mean gradients", caption="cosine of group-mean gradients",
                 legend=_AT_THE_DIAMOND, of=lambda measured: _at_the_sites(measured)),
        Quantity("cross_batch_stability", "cosine of group means", "cosine", interval="cross_batch_stability_interval"),
        Quantity("drift_shares", "drift share ρ", "cosine", per_site=True, traced=True,
                 interval="drift_share_intervals", heading="drift ρ", tex=r"drift $\rho$", meaning="drift share",
                 caption="drift share", legend=_AT_THE_DIAMOND, explains=True),
        Quantity("groups", "groups", "count"),
    )  # fmt: skip
    scalars = (
        Scalar("stability", "(c)", lambda measured: measured.cross_batch_stability, gives_way=3, tag="direction_drift",
               title="cosine of group gradients", threshold="stability_drift_ceiling"),
        Scalar("drift", "ρ", lambda measured: _judged_share(measured), tex=r"$\rho$", gives_way=4,
               timed=False),
    )  # fmt: skip
    curve = "stability"
    value_title = "cosine of group-mean gradients"
    least_samples = 2 * GROUP

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
    def summarise(part: Part) -> dict[str, Any]:
        """(c) and ρ at every site with jackknife intervals, and (c) at the middle site."""
        import numpy as np
        from torch import stack

        from walkback.protocol.group_figures import group_fields

        groups = [part.groups[number] for number in sorted(part.groups)]
        totals = stack([g.total for g in groups]).cpu().numpy()
        squares = stack([g.squares for g in groups]).cpu().numpy()
        sizes = np.array([g.count for g in groups], dtype=np.float64)
        return group_fields(totals, squares, sizes, part.widths, part.middle)

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where (c), or ρ if a ceiling for it was given, is above its ceiling."""
        if self.limits["drift_share_ceiling"] is not None:
            return self._judge_share(measured)
        make = self.reading_maker()
        figure, site = measured.cross_batch_stability, measured.stability_layer
        if figure is None:
            return make.not_measured(self._why_missing(measured))
        if figure - figure != 0:
            return make.non_finite("the batch-mean gradient holds NaN or Inf", figure, site)
        share = self._share_in_words(measured)
        interval = measured.cross_batch_stability_interval
        if interval is not None and not make.crosses(figure) and says_nothing(interval, make.threshold):
            groups = measured.groups or "few"
            why = (
                f"{groups} groups of 128 samples are too few for (c): its interval runs from "
                f"{written(max(interval.low, -1.0))} to {written(min(interval.high, 1.0))}. Measure on more held-out "
                f"samples, 2,048 or more. {share}"
            )
            told = make.undecided(figure, why.strip())
            return told.model_copy(update={"interval": interval, "site": site})
        return make.judged(
            figure,
            reason=self.reason,
            fired="Batches agree on the mean gradient direction: a component shared by all samples shows. "
            f"{share} (c) tells drift from noise among failures; it also fires on healthy networks, "
            "above all early in training.",
            passed=f"Batches do not share one gradient direction. {share}".strip(),
            interval=measured.cross_batch_stability_interval,
            site=site,
        )

    def _judge_share(self, measured: Measurements) -> Reading:
        make = self.reading_maker("drift_share_ceiling", title="drift share")
        if measured.drift_shares is None:
            why = "The drift share needs two samples or more whose gradients are not all zero."
            return make.not_measured(without_reference(measured, why) if measured.groups is None else why)
        if _left_out(measured):
            return make.not_measured(_left_out(measured))
        site = measured.stability_layer or 0
        figure = measured.drift_shares[site]
        if figure - figure != 0:
            return make.non_finite("the gradients hold NaN or Inf", figure, site)
        intervals = measured.drift_share_intervals
        words = f"{written(100 * figure)} % of the gradient's energy is a direction shared by all samples."
        return make.judged(
            figure, reason=self.reason, fired=words, passed=words, site=site,
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
        step = "" if measured.reference_check is not None else " For (c), pass cross_batch_stability=."
        return without_reference(measured, f"The directions of batch-mean gradients were not measured.{step}")

    @staticmethod
    def _share_in_words(measured: Measurements) -> str:
        """How much drift there is, which (c) alone does not say."""
        if measured.drift_shares is None or measured.stability_layer is None:
            return ""
        share = measured.drift_shares[measured.stability_layer]
        amount = "under 1 %" if share < SMALL_SHARE else f"{written(100 * share)} %"
        return f"The drift share ρ is {written(share)}: {amount} of the gradient's energy is common to all samples."


def says_nothing(interval: Interval, ceiling: float | None) -> bool:
    """Whether an interval of a cosine spans half of its range or more, and the ceiling in it."""
    wide = interval.high - interval.low >= UNINFORMATIVE
    return wide and ceiling is not None and interval.contains(ceiling)


def _at_the_sites(measured: Measurements) -> tuple[float | None, ...] | None:
    """(c) at every site; at the middle one alone in records that hold no more."""
    if measured.site_stabilities is not None:
        return measured.site_stabilities
    if measured.cross_batch_stability is None or measured.stability_layer is None:
        return None
    return (*[None] * measured.stability_layer, measured.cross_batch_stability)


def _judged_share(measured: Measurements) -> float | None:
    """ρ at the site that (c) is read at."""
    shares, site = measured.drift_shares, measured.stability_layer
    return None if shares is None or site is None else shares[site]


def _left_out(measured: Measurements) -> str:
    """That the site to judge at was not measured, where that is so."""
    if measured.site_numbers is None or measured.last_site is None or measured.stability_layer is not None:
        return ""
    return f"(c) is read at the middle site, {measured.last_site // 2}, which was not among the measured ones."
