"""(a) Residual growth: does one block multiply the size of the residual stream?"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic, ReadingMaker
from walkback.protocol.diagnostics.broken_sites import first_broken, first_non_finite
from walkback.protocol.diagnostics.declare import BOUND_THE_STREAM, Quantity, Scalar, Threshold, log_grid
from walkback.protocol.diagnostics.some_sites import deepest_norm, growth_at_some
from walkback.protocol.records import Interval, Measurements, Reading, growth
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture


FROM_ZERO = "growth from 0"


class ResidualGrowth(Diagnostic):
    """Growth of block l is median‖h_l‖ / median‖h_{l−1}‖; the largest one counts.

    Per block rather than over the whole stream: a class token is tiny after patch embedding, and
    max‖h‖/‖h_0‖ would fire on healthy networks.
    """

    letter = "a"
    title = "residual growth"
    question = "Does one block multiply the size of the residual stream?"
    meaning = "the signal grows out of bounds from block to block"
    subject = "the growth of the signal"
    reason = "residual stream exploded"
    remedy = BOUND_THE_STREAM
    case_remedies = {  # noqa: RUF012
        FROM_ZERO: "Check what was measured there: a hidden state of exactly 0 is rare. Is it an empty state of a "
        "recurrence, or a column of a log that was never filled? Name the blocks (blocks=) if the stream begins later."
    }
    thresholds = {  # noqa: RUF012
        "h_norm_explosion_ratio": Threshold(
            50.0, ">", "growth of one block", above=0, unit="×", axis="log", sweep=log_grid(0, 8),
        ),
    }  # fmt: skip
    quantities = (
        Quantity("residual_norms", "‖h‖", "norm", per_site=True, axis="log", traced=True,
                 interval="residual_norm_intervals", tex=r"$\|h\|$", profiled=True, csv="h",
                 meaning="median norm of the residual stream", caption="the residual stream",
                 legend="Median over samples, log scale. Diamond: the end of the block that grows most."),
        Quantity("nonfinite_hiddens", "non-finite h", "broken", per_site=True),
    )  # fmt: skip
    derived = (
        Quantity("block_growths", "growth", per_site=True, axis="log", meaning="of the block that writes the site",
                 of=lambda measured: (None, *measured.block_growths) if measured.block_growths else None),
    )  # fmt: skip
    scalars = (
        Scalar("stream", "‖h_L‖", lambda measured: measured.residual_norms[-1] if measured.residual_norms else None,
               partly=lambda measured: deepest_norm(measured, "h"), axis="log", live=True,
               title="‖h_L‖, the residual stream", tex=r"$\|h_L\|$", gives_way=0),
        Scalar("growth", "growth", lambda measured: measured.max_per_block_growth, axis="log", gives_way=1,
               title="largest growth of a block", threshold="h_norm_explosion_ratio", tag="max_per_block_growth"),
    )  # fmt: skip
    curve = "growth"
    value_title = "largest growth of one block"
    needs_gradient = False
    from_some_sites = True

    @staticmethod
    def measure(capture: Capture) -> tuple[Tensor, Tensor]:
        """(norms, broken samples), each (sites, B)."""
        return capture.hidden_norms, capture.broken_hiddens

    @staticmethod
    def merge(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Samples side by side."""
        from torch import cat

        return cat([left[0], right[0]], dim=1), cat([left[1], right[1]], dim=1)

    @staticmethod
    def summarise(part: tuple[Tensor, Tensor]) -> dict[str, Any]:
        """Median ‖h_l‖ per site with simultaneous intervals."""
        from walkback.protocol.uncertainty import medians_with_intervals

        norms, broken = part
        medians, intervals = medians_with_intervals(norms.cpu().numpy())
        return {
            "residual_norms": medians,
            "residual_norm_intervals": intervals,
            "nonfinite_hiddens": broken.sum(dim=1),
        }

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the largest growth of any block exceeds the ratio."""
        make = self.reading_maker()
        norms = measured.residual_norms
        if norms is None:
            some = growth_at_some(measured, make, self.reason)
            return some or make.not_measured("The norms of the residual stream were not measured.")
        broken = first_broken(measured.nonfinite_hiddens)
        site = broken if broken is not None else first_non_finite(norms)
        if site is not None:
            # What has no block before it is the input of block 1, whose growth then is no number.
            whose = "" if site else ", so the growth of block 1 is undefined"
            return make.non_finite(
                f"h_{site} holds NaN or Inf{whose}", value=measured.max_per_block_growth, site=max(site, 1)
            )
        growths = measured.block_growths
        if not growths:
            return make.not_measured("There is one site only, and growth needs the two ends of a block.")
        largest = max(growths)
        block = growths.index(largest) + 1
        if measured.site_numbers is not None:
            return self._over_several_blocks(make, measured, block)
        from_zero = norms[block - 1] == 0
        exploded = f"Block {block} multiplies the median ‖h‖ by {written(largest)}: the residual stream exploded there."
        return make.judged(
            largest,
            reason=ResidualGrowth.reason,
            case=FROM_ZERO if from_zero else "",
            fired=f"The median ‖h‖ is exactly 0 before block {block}, and growth from 0 is infinite."
            if from_zero
            else exploded,
            passed=f"No block multiplies the median ‖h‖ by more than {written(largest)} (block {block}).",
            interval=largest_growth_interval(measured.residual_norm_intervals),
            site=block,
        )

    @staticmethod
    def _over_several_blocks(make: ReadingMaker, measured: Measurements, pair: int) -> Reading:
        """With sites left out, a mean growth over several blocks can fire, and cannot pass."""
        assert measured.block_growths is not None
        largest = measured.block_growths[pair - 1]
        found = f"Sites were left out. The mean growth between the measured ones is up to {written(largest)}× a block"
        if not make.crosses(largest):
            return make.not_measured(f"{found}, and a single block may have grown by more. Measure all sites for (a).")
        return make.judged(
            largest,
            reason=ResidualGrowth.reason,
            fired=f"{found}, and one block has at least that.",
            passed="",
            site=pair,
        )


def largest_growth_interval(sites: tuple[Interval, ...] | None) -> Interval | None:
    """The interval of the largest growth, from simultaneous intervals of the medians.

    With every median inside its interval, every ratio lies in [low_l/high_{l−1}, high_l/low_{l−1}], and the
    largest of them between the largest of each bound.
    """
    if sites is None or len(sites) < 2:
        return None
    pairs = list(pairwise(sites))
    return Interval(
        low=max(growth(before.high, after.low) for before, after in pairs),
        high=max(growth(before.low, after.high) for before, after in pairs),
        level=sites[0].level,
        how="order statistics of both medians, combined conservatively",
    )
