"""Block growth since init: how much more does one block multiply the stream than before training?"""

from __future__ import annotations

from itertools import pairwise

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.broken_sites import first_non_finite
from walkback.protocol.diagnostics.declare import BOUND_THE_STREAM, Threshold, log_grid
from walkback.protocol.diagnostics.init_growth import NOT_ASKED
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written


class BlockGrowth(Diagnostic):
    """The growth since init behind a block over that before it; the largest counts.

    (a) takes a block as it is: one without a skip may multiply the stream by 25 and be healthy, as it did so at init.
    Growth of the whole stream since init is large where many parts grew a little. This is one part that grew alone.
    """

    letter = "bg"
    title = "block growth since init"
    question = "How much more does one block multiply the stream than before training?"
    meaning = "training has made one block blow up the signal"
    subject = "how much each block's growth has changed in training"
    reason = "one block exploded since init"
    remedy = BOUND_THE_STREAM
    thresholds = {  # noqa: RUF012
        "block_growth_ceiling": Threshold(
            None, ">", "growth of one block since init", above=0, unit="×", axis="log", sweep=log_grid(0, 8),
        ),
    }  # fmt: skip
    needs_gradient = False
    listed = "never"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the largest ratio is above the ceiling; reported where none is given."""
        make, sites = self.reading_maker(), measured.growth_from_init
        if sites is None:
            return make.not_measured(measured.no_initial or NOT_ASKED)
        if measured.site_numbers is not None:
            return make.not_measured("Sites were left out, so that growth is not known block by block.")
        broken = first_non_finite(sites)
        if broken is not None:
            return make.non_finite(f"h_{broken} holds NaN or Inf", value=sites[broken], site=broken)
        ratios = [after / before if before else float("inf") for before, after in pairwise(sites)]
        if not ratios:
            return make.not_measured("There is one site only, and growth needs the two ends of a block.")
        largest = max(ratios)
        block = ratios.index(largest) + 1
        words = f"Block {block} multiplies ‖h‖ by {written(largest)} times as much as before training, the most of all."
        if make.threshold is None:
            return make.reported(largest, f"{words} No ceiling was given to judge it by.")
        return make.judged(largest, reason=self.reason, fired=f"{words} {self.remedy}", passed=words, site=block)
