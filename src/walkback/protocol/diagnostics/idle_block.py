"""Idle block: does every block change what it is handed?"""

from __future__ import annotations

from itertools import pairwise

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Threshold, log_grid
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written


class IdleBlock(Diagnostic):
    """The relative change of ‖h‖ and of ‖g‖ across a block, whichever is larger; the smallest over blocks counts.

    A block that is dead behind its skip hands both on to the last digit. One that is trained changes at least one.
    """

    letter = "ib"
    title = "idle block"
    question = "Does every block change what it is handed?"
    meaning = "a block hands on what it gets, unchanged"
    subject = "whether every block does something"
    reason = "a block is idle"
    remedy = "Look for units that never open, and for a branch that is multiplied by zero."
    thresholds = {  # noqa: RUF012
        "idle_block_floor": Threshold(
            None, "<", "smallest relative change across a block", above=0, axis="log", sweep=log_grid(-12, 0),
        ),
    }  # fmt: skip
    needs_gradient = False
    listed = "never"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the smallest change is under the floor; reported where none is given."""
        make, hiddens, grads = self.reading_maker(), measured.residual_norms, measured.bp_grad_norms
        if hiddens is None or grads is None or len(hiddens) < 2:
            return make.not_measured("It needs the norms of the stream and of the gradient at every site.")
        if measured.site_numbers is not None:
            return make.not_measured("Sites were left out, so that a block may be idle between two of them.")
        if not all(norm - norm == 0 for norm in (*hiddens, *grads)):
            return make.not_measured("A norm is NaN or Inf.")
        changes = [max(_change(*h), _change(*g)) for h, g in zip(pairwise(hiddens), pairwise(grads), strict=True)]
        least = min(changes)
        block = changes.index(least) + 1
        words = f"Block {block} changes ‖h‖ or ‖g‖ by {written(least)} of its size, the least of all."
        if make.threshold is None:
            return make.reported(least, f"{words} No floor was given to judge it by.")
        return make.judged(least, reason=self.reason, fired=f"{words} {self.remedy}", passed=words, site=block)


def _change(before: float, after: float) -> float:
    """|after − before| of the larger of the two; 0 of two zeros."""
    largest = max(before, after)
    return abs(after - before) / largest if largest else 0.0
