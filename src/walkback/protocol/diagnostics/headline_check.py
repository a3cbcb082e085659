"""Headline check: is the accuracy that is claimed that of the network on the batches?"""

from __future__ import annotations

from math import sqrt

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Threshold, even_grid
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written


class HeadlineCheck(Diagnostic):
    """The claimed accuracy minus the one that was counted on the batches, in standard errors of what was counted.

    The error is that of a share as large as claimed, with one more right and one more wrong answer, so that a claim of
    100 % has one too. A claim that is lower than what was counted fires as well: it is of another network, or of other
    samples.
    """

    letter = "hc"
    title = "headline check"
    question = "Is the claimed accuracy that of this network on these batches?"
    meaning = "the claimed accuracy is not that of the network that was handed in"
    subject = "whether the claimed accuracy is this network's"
    reason = "headline is not this network's"
    remedy = "Score this checkpoint on the whole test set, and report that."
    thresholds = {  # noqa: RUF012
        "headline_gap_ceiling": Threshold(
            None, ">", "standard errors from the claimed accuracy", above=0, sweep=even_grid(0, 20, 0.5),
        ),
    }  # fmt: skip
    needs_gradient = False
    listed = "never"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the two are too far apart; reported where no ceiling is given."""
        make, claimed, counted = self.reading_maker(), measured.headline_acc, measured.answered
        if claimed is not None and claimed - claimed != 0:
            return make.non_finite("the claimed accuracy is not a number", value=claimed)
        if claimed is None or counted is None:
            return make.not_measured("It needs a claimed accuracy, headline_acc=, and batches to count it on.")
        smoothed = (claimed * counted.samples + 1) / (counted.samples + 2)
        error = sqrt(smoothed * (1 - smoothed) / counted.samples)
        gap = abs(claimed - counted.share) / error
        words = (
            f"No other accuracy is claimed than the one on these {counted.samples:,} samples."
            if claimed == counted.share
            else f"{100 * claimed:.2f} % is claimed, and {100 * counted.share:.2f} % of {counted.samples:,} samples "
            f"were answered rightly: {written(gap)} standard errors apart."
        )
        if make.threshold is None:
            return make.reported(gap, f"{words} No ceiling was given to judge it by.")
        return make.judged(gap, reason=self.reason, fired=f"{words} {self.remedy}", passed=words)
