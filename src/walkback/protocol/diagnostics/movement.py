"""Movement: did training move the weights of every block?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.broken_sites import first_non_finite
from walkback.protocol.diagnostics.declare import Quantity, Threshold, log_grid
from walkback.protocol.diagnostics.init_growth import NOT_ASKED
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written


class Movement(Diagnostic):
    """‖W − W_0‖ / ‖W_0‖ over all parameters of a block, of every block; the smallest counts.

    A block that was frozen has 0, however the network was reported. Where W_0 is zero, it is relative to W.
    """

    letter = "m"
    title = "movement"
    question = "Did training move the weights of every block?"
    meaning = "a block is where it began"
    subject = "whether the blocks moved"
    reason = "a block was hardly trained"
    remedy = "Look at whether its parameters were handed to the optimizer, and at the credit that reaches it."
    thresholds = {  # noqa: RUF012
        "movement_floor": Threshold(None, "<", "smallest movement of a block", least=0, axis="log",
                                    sweep=log_grid(-6, 2)),
    }  # fmt: skip
    quantities = (
        Quantity("block_movement", "movement of the blocks", "norm", axis="log"),
        Quantity("stem_movement", "movement of the stem", "norm", axis="log"),
        Quantity("head_movement", "movement of the head", "norm", axis="log"),
    )
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the smallest movement is under the floor; reported where none is given."""
        make, blocks = self.reading_maker(), measured.block_movement
        if blocks is None:
            return make.not_measured(NOT_ASKED)
        if not blocks:
            return make.not_measured("The blocks hold no parameters.")
        broken = first_non_finite(blocks)
        if broken is not None:
            return make.non_finite(f"the weights of block {broken + 1} hold NaN or Inf", value=blocks[broken])
        least = min(blocks)
        words = self._words(measured, blocks.index(least))
        if make.threshold is None:
            return make.reported(least, f"{words} No floor was given to judge it by.")
        return make.judged(least, reason=self.reason, fired=f"{words} {self.remedy}", passed=words)

    @staticmethod
    def _words(measured: Measurements, number: int) -> str:
        blocks = measured.block_movement or ()
        name = measured.moved_blocks[number] if number < len(measured.moved_blocks) else f"block {number + 1}"
        each = " ".join(written(moved) for moved in blocks)
        ends = {"stem": measured.stem_movement, "head": measured.head_movement}
        beside = "".join(f", {end} {written(moved)}" for end, moved in ends.items() if moved is not None)
        still = " It did not move at all: it was frozen, or nothing reached it." if blocks[number] == 0 else ""
        return f"‖W − W_0‖/‖W_0‖ per block: {each}{beside}. {name} moved least.{still}"
