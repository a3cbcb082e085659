"""Growth from init: how much larger is the stream than that of the same network before training?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.broken_sites import first_non_finite
from walkback.protocol.diagnostics.declare import BOUND_THE_STREAM, Quantity, Threshold, log_grid
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.wording import written

NOT_ASKED = "The network before training is not known: pass initial=, its weights or a function that builds it."


class InitGrowth(Diagnostic):
    """The median over samples of ‖h_l(x)‖ / ‖h_l(x)‖ at init; the largest over sites counts.

    Norms are over all tokens: a class token that begins at 1e-6 grows a million times in healthy training, and is one
    of many. The stem counts too, as site 0: one that explodes leaves no trace in the growth of any block.
    """

    letter = "i"
    title = "growth from init"
    question = "How much larger is the stream than that of the same network before training?"
    meaning = "training has blown up the signal"
    subject = "how much the signal grew in training"
    reason = "stream exploded since init"
    remedy = BOUND_THE_STREAM
    thresholds = {  # noqa: RUF012
        "init_growth_ceiling": Threshold(
            None, ">", "growth since init", above=0, unit="×", axis="log", sweep=log_grid(0, 8),
        ),
    }  # fmt: skip
    quantities = (
        Quantity("growth_from_init", "growth since init", "norm", unit="×", per_site=True, axis="log",
                 interval="growth_from_init_intervals"),
    )  # fmt: skip
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the largest growth is above the ceiling; reported where none is given."""
        make, sites = self.reading_maker(), measured.growth_from_init
        if sites is None:
            return make.not_measured(measured.no_initial or NOT_ASKED)
        broken = first_non_finite(sites)
        if broken is not None:
            return make.non_finite(f"h_{broken} holds NaN or Inf", value=sites[broken], site=broken)
        largest = max(sites)
        site, interval = sites.index(largest), _largest(measured.growth_from_init_intervals)
        words = f"‖h_{site}‖ is {written(largest)} times what it was before training, the most of any site."
        if make.threshold is None:
            told = make.reported(largest, f"{words} No ceiling was given to judge it by.")
            return told.model_copy(update={"site": site, "interval": interval})
        fired = f"{words} {self.remedy}"
        return make.judged(largest, reason=self.reason, fired=fired, passed=words, interval=interval, site=site)


def _largest(sites: tuple[Interval, ...] | None) -> Interval | None:
    """Of the largest of several figures whose intervals hold at once: the largest of each bound."""
    if not sites:
        return None
    low, high = max(each.low for each in sites), max(each.high for each in sites)
    return Interval(low=low, high=high, level=sites[0].level, how=sites[0].how)
