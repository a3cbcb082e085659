"""Nudge: does a small step against the credit lower the loss?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Scalar
from walkback.protocol.diagnostics.perturbation import NOT_ASKED, mean_of, reported_mean
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import signed


class Nudge(Diagnostic):
    """The mean over samples of ℓ(h_l − 0.01 a_l) − ℓ(h_l), at every site. It is reported.

    The study that defined it does not say whether credit is normalised there, so it is told of both: of credit as the
    method hands it over, and of credit with RMS 1 in each sample, whose step has one size at every site and method.
    """

    letter = "n"
    title = "nudge"
    question = "Does a small step against the credit lower the loss?"
    meaning = "a step against the credit does not lower the loss"
    subject = "whether a step against the credit lowers the loss"
    quantities = (
        Quantity("nudge", "nudge", per_site=True, traced=True, signed=True, interval="nudge_intervals",
                 mean_interval="nudge_mean_interval", intervals_traced=True, csv="nudge", least_span=0,
                 meaning="change of the loss by a step of 0.01 against the credit",
                 legend="Below 0: a step against the credit lowers the loss."),
        Quantity("unit_nudge", "nudge, credit of RMS 1", per_site=True, traced=True, signed=True,
                 interval="unit_nudge_intervals", mean_interval="unit_nudge_mean_interval", intervals_traced=True,
                 heading="nudge, RMS 1", csv="unit_nudge", least_span=0,
                 meaning="the same by credit of RMS 1 in each sample"),
    )  # fmt: skip
    scalars = (
        Scalar("nudge", "nudge", lambda measured: mean_of(measured.nudge), title="nudge, behind h_0", signed=True,
               live=True, tag="nudge", least_span=0, larger="better"),
    )  # fmt: skip
    signed = True
    value_title = "nudge, behind h_0"
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """The mean behind h_0, and every site."""
        make, sites = self.reading_maker(), measured.nudge
        if sites is None:
            return make.not_measured(measured.no_functional or NOT_ASKED)
        meaning = "below 0, the step lowers it."
        if measured.unit_nudge is not None:
            scaled = " ".join(signed(value) for value in measured.unit_nudge)
            meaning += f" With credit of RMS 1: {scaled}."
        return reported_mean(make, sites, measured.nudge_mean_interval, "change of the loss", meaning)
