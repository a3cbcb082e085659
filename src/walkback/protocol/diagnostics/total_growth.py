"""Total growth: how much larger is the stream behind all blocks than before them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import BOUND_THE_STREAM, Quantity, Threshold, log_grid
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture


class TotalGrowth(Diagnostic):
    """The median over samples of ‖h_L(x)‖ / ‖h_0(x)‖, over all tokens.

    (a) reads one block at a time: growth of 40 times in each of ten blocks passes it. Norms are over all tokens, not of
    the class token alone, which is next to nothing at h_0 in a healthy network.
    """

    letter = "t"
    title = "total growth"
    question = "How much larger is the stream behind all blocks than before them?"
    meaning = "the signal grows out of bounds over the blocks together"
    subject = "the growth of the signal over all blocks"
    reason = "residual stream exploded over its depth"
    remedy = BOUND_THE_STREAM
    thresholds = {  # noqa: RUF012
        "total_growth_ceiling": Threshold(
            None, ">", "growth over all blocks", above=0, unit="×", axis="log", sweep=log_grid(0, 8),
        ),
    }  # fmt: skip
    quantities = (
        Quantity("total_growth", "total growth", "norm", unit="×", axis="log", interval="total_growth_interval"),
    )
    needs_gradient = False
    listed = "never"

    @staticmethod
    def measure(capture: Capture) -> Tensor:
        """‖h_0(x)‖ and ‖h_L(x)‖ side by side, (B, 2)."""
        from torch import stack

        from walkback.protocol.initial import stream_norms

        first, last = stream_norms(capture, slice(0, 1)), stream_norms(capture, slice(-1, None))
        return stack([first[0], last[0]], dim=1)

    @staticmethod
    def summarise(part: Tensor) -> dict[str, Any]:
        """The median ratio with its interval; of samples whose h_0 is not zero."""
        from walkback.protocol.uncertainty import medians_with_intervals

        some = part[part[:, 0] != 0].cpu().numpy()
        if not len(some):
            return {}
        medians, intervals = medians_with_intervals((some[:, 1] / some[:, 0])[None])
        return {"total_growth": medians[0], "total_growth_interval": intervals[0] if intervals else None}

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where it is above the ceiling; reported where none is given."""
        make, growth = self.reading_maker(), measured.total_growth
        numbers = measured.site_numbers
        if numbers is not None and (numbers[0] != 0 or numbers[-1] != measured.last_site):
            return make.not_measured("It is read at the first and the last site, and one of them was left out.")
        if growth is None:
            return make.not_measured("The norms of the stream were not measured sample by sample.")
        if growth - growth != 0:
            return make.non_finite("the stream holds NaN or Inf", value=growth)
        words = f"‖h_L‖ is {written(growth)} times ‖h_0‖, over all tokens."
        if make.threshold is None:
            told = make.reported(growth, f"{words} No ceiling was given to judge it by.")
            return told.model_copy(update={"interval": measured.total_growth_interval})
        return make.judged(
            growth, reason=self.reason, fired=f"{words} {self.remedy}", passed=words,
            interval=measured.total_growth_interval,
        )  # fmt: skip
