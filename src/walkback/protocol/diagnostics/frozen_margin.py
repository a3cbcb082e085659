"""(d) Frozen margin: do the trained blocks beat blocks left at random initialisation?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Scalar, Threshold, even_grid
from walkback.protocol.pairing import Answered, pairs_with, why_apart
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.scores import Score
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from walkback.protocol.capture import Capture
    from walkback.protocol.losses import Answers

NEAR = 2.0
"""Points: a margin this near to its threshold may fall on its other side with another seed; and a loss of fewer than
these, without an interval, may be none."""
EASY, CLOSE, HARMFUL = "easy", "close", "harmful"
NEARLY_PERFECT = 0.95
"""From this accuracy of the frozen baseline on, a margin of two points is hardly to be had."""
SENSITIVE = " (d) is close to its threshold here: repeat with more seeds."


class FrozenMargin(Diagnostic):
    """Headline accuracy minus that of the same network trained the same way with frozen blocks, in points.

    Where the baseline is in another unit, so is the margin: what training the blocks gains, whichever way is better.
    """

    letter = "d"
    title = "frozen margin"
    question = "Do the trained blocks beat blocks left at random initialisation?"
    meaning = "the trained blocks do no better than random ones"
    subject = "whether training the blocks helps at all"
    reason = "deep blocks fail to beat frozen-random baseline"
    remedy = "Do not credit the method with this accuracy: the same network reaches it with its blocks left untrained."
    non_finite_remedy = "An accuracy that was handed in is NaN or Inf: give numbers from 0 to 1."
    case_remedies = {  # noqa: RUF012
        EASY: "The frozen baseline is nearly perfect too: the task may be too easy to show what the blocks add. Try a "
        "harder one; the panel calibrated judges by other numbers.",
        HARMFUL: "Do not credit the method with this accuracy: it is worse than with random blocks. Find out what "
        "training does to the blocks; walkback.Monitor shows at which step it begins.",
        CLOSE: "The margin is close to its threshold: repeat with more seeds before you credit the blocks, or deny it.",
    }
    thresholds = {  # noqa: RUF012
        "frozen_acc_margin_pp": Threshold(
            2.0, "<", "margin over frozen blocks", least=-100, most=100, unit="pp", sweep=even_grid(-10, 30, 0.5),
            short="margin",
        ),
        "frozen_margin": Threshold(None, "<", "margin in another unit than accuracy"),
    }  # fmt: skip
    quantities = (
        Quantity("headline_acc", "accuracy"),
        Quantity("headline_score", "score"),
        Quantity("frozen_baseline_acc", "frozen baseline", traced=True),
        Quantity("frozen_baseline_score", "frozen baseline"),
        Quantity("frozen", "frozen blocks"),
        Quantity("perplexity", "perplexity", traced=True),
    )
    scalars = (Scalar("margin", "margin", threshold="frozen_acc_margin_pp", signed=True, timed=False),)
    curve = "accuracy"
    value_title = "accuracy over frozen blocks, pp"
    signed = True
    needs_gradient = False

    @classmethod
    def meaning_of(cls, reading: Reading, measured: Measurements) -> str:
        """Blocks that gain a little, but less than the threshold, are not said to gain nothing; nor those that harm."""
        if reading.value is None or reading.value - reading.value != 0:
            return cls.meaning
        if reading.value < 0:
            return "the trained blocks do worse than random ones"
        return "training the blocks gains too little over leaving them at random" if reading.value else cls.meaning

    @staticmethod
    def measure(capture: Capture) -> Answers | None:
        """The right and scored predictions of one batch."""
        from walkback.protocol.losses import count_correct

        return count_correct(capture.trace.logits, capture.trace.targets)

    @staticmethod
    def merge(left: Answers | None, right: Answers | None) -> Answers | None:
        """Add the counts."""
        return None if left is None or right is None else left.plus(right)

    @staticmethod
    def summarise(part: Answers | None) -> dict[str, Any]:
        """The accuracy on the batches, for use where no headline accuracy was given."""
        score = part.score() if part is not None else None
        if score is None:
            return {}
        return {
            "headline_acc": score.value,
            "headline_samples": score.samples,
            "headline_answers": score.answers,
            "classes": None if part is None else part.classes,
        } | _of_language(part)

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the margin over the frozen baseline is too small."""
        if measured.frozen_baseline_score is not None:
            return self._in_its_unit(measured.headline_score, measured.frozen_baseline_score)
        make = self.reading_maker()
        headline, baseline = measured.headline_acc, measured.frozen_baseline_acc
        for name, score in (("headline accuracy", headline), ("frozen-baseline accuracy", baseline)):
            if score is not None and score - score != 0:
                return make.non_finite(f"the {name} is not a number", value=score)
        if headline is None or baseline is None:
            if measured.is_baseline:
                return make.not_measured("This run is itself a frozen baseline: (d) does not apply.")
            what = "frozen baseline" if baseline is None else "headline accuracy"
            return make.not_measured(f"No {what} was given; walkback.frozen_baseline trains the matched baseline.")
        margin_pp = 100 * (headline - baseline)
        words, interval = _gained(margin_pp, f"{abs(margin_pp):.2f} pp"), _interval(measured)
        near = SENSITIVE if _near(make.threshold, margin_pp, interval) else ""
        why = why_apart(measured.headline_correct, measured.frozen_baseline_correct)
        apart = f" {why}" if why else ""
        case = EASY if min(headline, baseline) > NEARLY_PERFECT else CLOSE if near else ""
        if not case and (interval.high < 0 if interval is not None else margin_pp <= -NEAR):
            case, words = HARMFUL, f"{-margin_pp:.2f} points worse than with random blocks: training them did harm"
        return make.judged(
            margin_pp,
            reason=self.reason,
            fired=f"{words}.{apart}" if case == HARMFUL else f"{words}: they add nothing that counts.{near}{apart}",
            passed=f"{words}.{near}{apart}",
            interval=interval,
            case=case,
        )

    def _in_its_unit(self, headline: Score | None, baseline: Score) -> Reading:
        """The margin in another unit than accuracy, for which no threshold was ever published."""
        unit = baseline.unit
        make = self.reading_maker("frozen_margin", unit)
        for name, score in (("headline", headline), ("frozen baseline", baseline)):
            if score is not None and score.value - score.value != 0:
                return make.non_finite(f"the {name} in {unit} is not a number", value=score.value)
        if headline is None or not headline.same_unit_as(baseline):
            came = "no headline in that unit was given" if headline is None else f"the headline is in {headline.unit}"
            better = f"higher_is_better={baseline.higher_is_better}"
            return make.not_measured(
                f"The frozen baseline is in {unit}, and {came}; pass score=walkback.Score(value=…, unit={unit!r}, "
                f"{better})."
            )
        margin = headline.gain_over(baseline)
        words = _gained(margin, f"{written(abs(margin))} {unit}")
        if make.threshold is None:
            return make.undecided(
                margin,
                f"{words}. How much counts in this unit is for you to say: "
                "DiagnosticThresholds(frozen_margin=…), the least gain that passes.",
            )
        return make.judged(
            margin,
            reason=self.reason,
            fired=f"{words}: less than was asked for.",
            passed=f"{words}.",
        )


def _of_language(part: Answers | None) -> dict[str, Any]:
    perplexity = part.perplexity if part is not None else None
    return {} if part is None or perplexity is None else {"perplexity": perplexity, "tokens": part.answers}


def _gained(margin: float, amount: str) -> str:
    return f"Training the blocks {'gains' if margin >= 0 else 'loses'} {amount} against leaving them at random"


def _near(threshold: float | None, margin: float, interval: Interval | None) -> bool:
    """Whether the margin, or an end of its interval, is near the threshold."""
    if threshold is None:
        return False
    low, high = (margin, margin) if interval is None else (interval.low, interval.high)
    return low - NEAR <= threshold <= high + NEAR


def _is_theirs(correct: Answered | None, accuracy: float | None) -> bool:
    """Whether the answers are those behind the headline, not others that were counted on the batches."""
    return correct is not None and accuracy is not None and abs(correct.share - accuracy) < 1e-6


def _interval(measured: Measurements) -> Interval | None:
    from walkback.protocol.uncertainty import LEVEL, margin_interval

    m = measured
    pairs = pairs_with(m.headline_correct, m.frozen_baseline_correct)
    theirs = _is_theirs(m.headline_correct, m.headline_acc) and _is_theirs(
        m.frozen_baseline_correct, m.frozen_baseline_acc
    )
    if pairs is not None and theirs:
        return pairs.difference_interval(LEVEL)
    if m.headline_samples is None or m.frozen_baseline_samples is None:
        return None
    assert m.headline_acc is not None
    assert m.frozen_baseline_acc is not None
    several = m.headline_answers is not None or m.frozen_baseline_answers is not None
    return margin_interval(
        m.headline_acc, m.headline_samples, m.frozen_baseline_acc, m.frozen_baseline_samples, several=several
    )
