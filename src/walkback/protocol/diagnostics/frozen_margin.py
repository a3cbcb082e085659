"""(d) Frozen margin: do the trained blocks beat blocks left at random initialisation?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from walkback.protocol.diagnostics.base import ReadingMaker
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from walkback.protocol.capture import Capture

REASON = "deep blocks fail to beat frozen-random baseline"
SENSITIVE = "(d) is the diagnostic most sensitive to its threshold."


@dataclass(frozen=True)
class FrozenMargin:
    """Headline accuracy minus that of the same network trained the same way with frozen blocks, in points."""

    frozen_acc_margin_pp: float = 2.0
    letter: ClassVar[str] = "d"
    name: ClassVar[str] = "frozen margin"

    @classmethod
    def from_thresholds(cls, thresholds: DiagnosticThresholds) -> FrozenMargin:
        """Take the margin."""
        return cls(thresholds.frozen_acc_margin_pp)

    @staticmethod
    def measure(capture: Capture) -> tuple[int, int] | None:
        """(correct, scored) predictions of one batch."""
        from walkback.protocol.losses import count_correct

        return count_correct(capture.trace.logits, capture.trace.targets)

    @staticmethod
    def merge(left: tuple[int, int] | None, right: tuple[int, int] | None) -> tuple[int, int] | None:
        """Add the counts."""
        return None if left is None or right is None else (left[0] + right[0], left[1] + right[1])

    @staticmethod
    def figures(part: tuple[int, int] | None) -> dict[str, Any]:
        """The accuracy on the batches, for use where no headline accuracy was given."""
        if part is None or part[1] == 0:
            return {}
        return {"headline_acc": part[0] / part[1], "headline_samples": part[1]}

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the margin over the frozen baseline is too small."""
        make = ReadingMaker(self.letter, self.name, "<", self.frozen_acc_margin_pp, "pp")
        headline, baseline = measured.headline_acc, measured.frozen_baseline_acc
        for name, score in (("headline accuracy", headline), ("frozen-baseline accuracy", baseline)):
            if score is not None and score - score != 0:
                return make.non_finite(f"the {name} is not a number", figure=score)
        if headline is None or baseline is None:
            what = "frozen baseline" if baseline is None else "headline accuracy"
            return make.not_measured(f"No {what} was given; walkback.frozen_baseline trains the matched baseline.")
        margin_pp = 100 * (headline - baseline)
        change = "gains" if margin_pp >= 0 else "loses"
        words = f"Training the blocks {change} {abs(margin_pp):.2f} pp against leaving them at random"
        return make.judged(
            margin_pp,
            reason=REASON,
            fired=f"{words}: they add nothing that counts. {SENSITIVE}",
            passed=f"{words}. {SENSITIVE}",
            interval=_interval(measured),
        )


def _interval(measured: Measurements) -> Interval | None:
    from walkback.protocol.uncertainty import margin_interval

    m = measured
    if m.headline_samples is None or m.frozen_baseline_samples is None:
        return None
    assert m.headline_acc is not None
    assert m.frozen_baseline_acc is not None
    return margin_interval(m.headline_acc, m.headline_samples, m.frozen_baseline_acc, m.frozen_baseline_samples)
