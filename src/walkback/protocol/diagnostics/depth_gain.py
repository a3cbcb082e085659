"""Depth gain: how many of the errors of a network with random blocks does training the blocks remove?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold, even_grid
from walkback.protocol.pairing import (
    LARGEST_LOSS,
    PAIRED,
    Answered,
    Pairs,
    on_trust,
    pairs_with,
    unpaired_reduction,
    why_apart,
)
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.wording import p_value

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.capture import Capture

HARMFUL, NO_GAIN, GAINS, NOT_DECIDABLE = "harmful", "no gain shown", "gains", "not decidable"
SIGNIFICANT = 0.05
"""Of McNemar's test, two-sided."""
HALVED = 0.5
"""A test that can tell no gain from half the errors neither way cannot tell anything."""
TRUSTED = "A list names no labels: that both are of the same samples in one order is taken on trust."
FROZEN, RANDOM = "left at random init", "at random with the norms of the trained ones"

Part = tuple["Tensor", "Tensor", "Tensor"]


@dataclass(frozen=True)
class Gain:
    """What the trained blocks gain over one baseline."""

    over: str
    value: float | None
    """1 − error of the network / error of the baseline; None where the baseline makes no error."""
    interval: Interval | None
    pairs: Pairs | None = None
    """None where the two were scored apart."""
    remark: str = ""
    """Why two lists of right answers were not paired, or what their pairing rests on."""

    @property
    def outcome(self) -> str:
        """Which of the four it is."""
        value, interval = self.value, self.interval
        if value is None or interval is None:
            return NOT_DECIDABLE
        shown = interval.low > 0 or interval.high < 0 if self.pairs is None else self.pairs.p_value < SIGNIFICANT
        if shown:
            return GAINS if value > 0 else HARMFUL
        # McNemar's test and the interval need not agree to the last sample.
        return NOT_DECIDABLE if interval.low <= 0 and interval.high >= HALVED else NO_GAIN


class DepthGain(Diagnostic):
    """1 − error of the network / error of the same network trained with random blocks, in pairs over test samples.

    A margin in points shrinks with the error that is left: at 99 % nothing gains 2 points. The share of errors that go
    does not. Where there are two baselines, the better one counts.
    """

    letter = "h"
    title = "depth gain"
    question = "How many of the errors of random blocks does training the blocks remove?"
    meaning = "training the blocks removes no errors that count"
    subject = "what training the blocks gains"
    reason = "trained blocks gain nothing over random ones"
    remedy = "Do not read the accuracy as the method's: stem and head reach it without the blocks."
    thresholds = {  # noqa: RUF012
        "depth_gain_floor": Threshold(
            None, "<", "share of errors removed", most=1, sweep=even_grid(-0.5, 0.9, 0.02),
        ),
    }  # fmt: skip
    quantities = (
        Quantity("headline_correct", "right answers"),
        Quantity("frozen_baseline_correct", "right answers of the frozen baseline"),
        Quantity("random_baseline_acc", "baseline at random with trained norms"),
        Quantity("random_baseline_correct", "right answers of that baseline"),
    )
    needs_gradient = False
    listed = "measured"

    @staticmethod
    def measure(capture: Capture) -> Part | None:
        """(place, right, class) of each scored sample, (N,) each; None where samples have no one class."""
        from torch import arange

        from walkback.protocol.distributed import number_of
        from walkback.protocol.losses import IGNORED, right_of_each

        known = right_of_each(capture.trace.logits, capture.trace.targets)
        if known is None:
            return None
        first, step = number_of(capture.offset), number_of(1) - number_of(0)
        places = first + step * arange(capture.samples)
        return places[(capture.trace.targets != IGNORED).cpu()], *known

    @staticmethod
    def merge(left: Part | None, right: Part | None) -> Part | None:
        """Samples below each other."""
        return None if left is None or right is None else Diagnostic.merge(left, right)

    @staticmethod
    def summarise(part: Part | None) -> dict[str, Any]:
        """Which samples are answered rightly, in the order of the batches."""
        if part is None or not len(part[0]):
            return {}
        order = part[0].argsort()
        return {"headline_correct": Answered.of(part[1][order].numpy(), part[2][order].numpy())}

    @classmethod
    def is_listed(cls, reading: Reading) -> bool:
        """Where it was counted in pairs: of two that were scored apart it tells little beside (d)."""
        return super().is_listed(reading) and reading.interval is not None and PAIRED in reading.interval.how

    @classmethod
    def case_over_seeds(cls, mean: Interval) -> str:
        """The outcome by the interval of the mean gain, in which the variance over seeds is."""
        if mean.low > 0 or mean.high < 0:
            return GAINS if mean.low > 0 else HARMFUL
        return NOT_DECIDABLE if mean.high >= HALVED else NO_GAIN

    def judge(self, measured: Measurements) -> Reading:
        """The gain over the better baseline, with the outcome as its case; FIRE where it is under the floor."""
        make = self.reading_maker()
        given = (measured.headline_acc, measured.frozen_baseline_acc, measured.random_baseline_acc)
        if any(score is not None and score - score != 0 for score in given):
            return make.non_finite("an accuracy is not a number")
        gains = [gain for gain in (over_frozen(measured), over_random(measured)) if gain is not None]
        if not gains:
            return make.not_measured(
                "It needs the accuracy and that of a frozen baseline, each with its samples: walkback.frozen_baseline "
                "gives both, and walkback.Score(value=…, samples=…, correct=…) holds them."
            )
        least = min(gains, key=lambda gain: gain.value if gain.value is not None else -1e9)
        others = "".join(f" Over blocks {g.over} it is {_share(g.value)}." for g in gains if g is not least)
        return self._reading(least, f"{_words(least)}{others}{f' {least.remark}' if least.remark else ''}")

    def _reading(self, gain: Gain, words: str) -> Reading:
        make, case = self.reading_maker(), gain.outcome
        sentence = f"{case[:1].upper()}{case[1:]}: {words}"
        if case == NOT_DECIDABLE:
            # Without a threshold there is nothing to decide, and so no gap.
            tell = make.reported if make.threshold is None else make.undecided
            told = tell(gain.value, f"{sentence} {_why_not(gain)}")
        elif make.threshold is None:
            told = make.reported(gain.value, f"{sentence} No threshold was set.")
        else:
            assert gain.value is not None
            told = make.judged(
                gain.value, reason=self.reason, fired=f"{sentence} {self.remedy}", passed=sentence,
                interval=gain.interval,
            )  # fmt: skip
        return told.model_copy(update={"case": case, "interval": gain.interval})


def over_frozen(measured: Measurements) -> Gain | None:
    """The gain over blocks at their random init."""
    m = measured
    return _gain(FROZEN, m, m.frozen_baseline_acc, m.frozen_baseline_samples, m.frozen_baseline_correct)


def over_random(measured: Measurements) -> Gain | None:
    """The gain over blocks at random with the trained norms."""
    m = measured
    return _gain(RANDOM, m, m.random_baseline_acc, m.random_baseline_samples, m.random_baseline_correct)


def _gain(
    over: str, measured: Measurements, accuracy: float | None, samples: int | None, correct: Answered | None
) -> Gain | None:
    from walkback.protocol.uncertainty import LEVEL

    mine = measured.headline_correct
    pairs = pairs_with(mine, correct)
    if pairs is not None:
        remark = TRUSTED if on_trust(mine, correct) else ""
        return Gain(over, pairs.reduction_or_loss, pairs.error_reduction_interval(LEVEL), pairs, remark)
    headline = measured.headline_acc
    if headline is None or accuracy is None or measured.headline_samples is None or samples is None:
        return None
    if accuracy >= 1 and headline >= 1:
        return Gain(over, None, None)
    interval = unpaired_reduction(headline, measured.headline_samples, accuracy, samples, LEVEL)
    value = 1 - (1 - headline) / (1 - accuracy) if accuracy < 1 else -LARGEST_LOSS
    return Gain(over, value, interval, remark=why_apart(mine, correct))


def _share(value: float | None) -> str:
    if value is not None and value <= -LARGEST_LOSS:
        return "a loss without bounds"
    return "not known" if value is None else f"{100 * value:+.1f} %".replace("-", "−")


def _words(gain: Gain) -> str:
    if gain.value is None:
        return f"with blocks {gain.over} the network makes no error, so none can be removed."
    if gain.value == -LARGEST_LOSS:
        many = "some; the two were scored apart, not in pairs" if gain.pairs is None else f"{gain.pairs.second:,}"
        return f"with blocks {gain.over} the network makes no error, and with trained ones {many}."
    did = "removes" if gain.value >= 0 else "adds"
    words = f"training the blocks {did} {100 * abs(gain.value):.1f} % of the errors of blocks {gain.over}"
    if gain.pairs is None:
        return f"{words}; the two were scored apart, not in pairs."
    p = gain.pairs
    alone = f"of {p.samples:,} samples {p.first:,} are right only with trained blocks and {p.second:,} only without"
    return f"{words}: {alone} (McNemar {p_value(p.p_value, 2)})."


def _why_not(gain: Gain) -> str:
    if gain.value is None:
        return "The task is at its ceiling; take one that is harder."
    if gain.interval is None:
        return "There are too few errors for an interval. Score both on more samples, or on a harder task."
    return (
        f"The interval runs from {_share(gain.interval.low)} to {_share(gain.interval.high)}: neither no gain nor half "
        "of the errors can be excluded. Score both on more samples, or on a harder task."
    )
