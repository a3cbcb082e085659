"""Idle block: does every block change what it is handed?"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold, log_grid
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture

CHANGES = "block_changes"
"""By block, the median over samples of ‖h_l − h_{l−1}‖ / ‖h_{l−1}‖: in `Measurements.extra`."""


class IdleBlock(Diagnostic):
    """The relative change of h, ‖h‖ and ‖g‖ across a block, whichever is largest; the smallest over blocks counts.

    A block that is dead behind its skip hands all of them on to the last digit, sample by sample. Norms that are equal
    as printed, or of a block that turns every vector and keeps its length, show no such thing: without numbers of the
    samples themselves it is not measured.
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
    quantities = (Quantity(CHANGES, "change of h across each block", "norm", axis="log"),)
    needs_gradient = False
    listed = "never"

    @staticmethod
    def measure(capture: Capture) -> Tensor:
        """‖h_l(x) − h_{l−1}(x)‖ / ‖h_{l−1}(x)‖, (B, blocks), over all tokens; 1 where the two have different shapes."""
        from torch import full_like, stack, zeros

        from walkback.protocol.numerics import norms

        changes = []
        for before, after in pairwise(capture.hiddens):
            size = norms(before.flatten(1))
            alike = before.shape == after.shape
            changes.append(norms((after - before).flatten(1)) / size if alike else full_like(size, 1.0))
        # Of one site alone there is no block.
        return stack(changes, dim=1) if changes else zeros(capture.samples, 0)

    @staticmethod
    def summarise(part: Tensor) -> dict[str, Any]:
        """The median over samples of every block; of those samples alone whose numbers are all finite."""
        import numpy as np

        finite = part[part.isfinite().all(dim=1)].cpu().numpy()
        return {CHANGES: tuple(np.median(finite, axis=0).tolist())} if finite.size else {}

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the smallest change is under the floor; reported where none is given."""
        make, hiddens, grads = self.reading_maker(), measured.residual_norms, measured.bp_grad_norms
        if hiddens is None or grads is None or len(hiddens) < 2:
            return make.not_measured("It needs the norms of the stream and of the gradient at every site.")
        if measured.site_numbers is not None:
            return make.not_measured("Sites were left out, so that a block may be idle between two of them.")
        if not all(norm - norm == 0 for norm in (*hiddens, *grads)):
            return make.not_measured("A norm is NaN or Inf.")
        own = _own_changes(measured, len(hiddens) - 1)
        if own is None:
            return make.not_measured("Norms alone do not show it: it is measured on the samples of the network itself.")
        pairs = zip(pairwise(hiddens), pairwise(grads), own, strict=True)
        changes = [max(_change(*h), _change(*g), change) for h, g, change in pairs]
        least = min(changes)
        block = changes.index(least) + 1
        words = f"Block {block} changes h, ‖h‖ or ‖g‖ by {written(least)} of its size, the least of all."
        if make.threshold is None:
            return make.reported(least, f"{words} No floor was given to judge it by.")
        return make.judged(least, reason=self.reason, fired=f"{words} {self.remedy}", passed=words, site=block)


def _own_changes(measured: Measurements, blocks: int) -> tuple[float, ...] | None:
    """How much every block changes the samples; None where the norms are all that is known.

    Records of before have medians of the samples in full, with their intervals: there no two agree by rounding.
    """
    own = measured.extra.get(CHANGES)
    if isinstance(own, tuple) and len(own) == blocks:
        return own
    return (0.0,) * blocks if measured.residual_norm_intervals is not None and measured.samples else None


def _change(before: float, after: float) -> float:
    """|after − before| of the larger of the two; 0 of two zeros."""
    largest = max(before, after)
    return abs(after - before) / largest if largest else 0.0
