"""Nudge: does a small step against the credit lower the loss?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity
from walkback.protocol.diagnostics.perturbation import NOT_ASKED
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import signed


class Nudge(Diagnostic):
    """The mean over samples of ℓ(h_l − 0.01 a_l) − ℓ(h_l), at every site. It is reported."""

    letter = "n"
    title = "nudge"
    question = "Does a small step against the credit lower the loss?"
    meaning = "a step against the credit does not lower the loss"
    quantities = (Quantity("nudge", "nudge", per_site=True, traced=True, interval="nudge_intervals"),)
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """The mean behind h_0, and every site."""
        make, sites = self.reading_maker(), measured.nudge
        if sites is None:
            return make.not_measured(measured.no_functional or NOT_ASKED)
        deep = sites[1:] or sites
        each = " ".join(signed(change) for change in sites)
        mean = sum(deep) / len(deep)
        return make.reported(mean, f"change of the loss per site: {each}; below 0, the step lowers it.")
