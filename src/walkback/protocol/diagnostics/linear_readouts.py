"""Linear readouts: what do the blocks add that a linear model of h_0 has not, and does the head find it?

Each sample is answered by a ridge regression on one site that was fitted without it (`protocol.readouts`). Nothing is
trained again: no frozen twin is needed.
"""

from __future__ import annotations

from typing import ClassVar

from walkback.protocol.diagnostics.base import Diagnostic, Listed
from walkback.protocol.diagnostics.declare import Quantity, Threshold, even_grid
from walkback.protocol.pairing import Answered, Pairs
from walkback.protocol.records import Interval, Measurements, Reading, Readouts
from walkback.protocol.wording import counted

NOT_ASKED = "Linear readouts were not asked for: pass readouts=True."
GRID = even_grid(-1.0, 0.9, 0.02)


class OfReadouts(Diagnostic):
    """The share of the errors of one answer that another removes, in pairs over samples."""

    needs_gradient = False
    listed: ClassVar[Listed] = "measured"
    over = ""
    """Whose errors they are, in words."""
    did = ""
    """What removes them, in words."""

    @staticmethod
    def answers(readouts: Readouts) -> tuple[Answered, Answered]:
        """The answers that may gain, and those that they are compared with."""
        raise NotImplementedError

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the share of errors removed is under the floor; reported where no floor is given."""
        make, readouts = self.reading_maker(), measured.readouts
        if readouts is None:
            return make.not_measured(measured.no_readouts or NOT_ASKED)
        numbers = measured.site_numbers
        if numbers is not None and (numbers[0] != 0 or numbers[-1] != measured.last_site):
            return make.not_measured("It is read at the first and the last site, and one of them was left out.")
        pairs = Pairs.of(*self.answers(readouts))
        value, interval = pairs.reduction_or_loss, gain_interval(pairs, readouts)
        if value is None or interval is None:
            return make.reported(None, f"There are no errors of {self.over}, so none can be removed.")
        sentence = f"{self._words(pairs)} {accuracies_in_words(readouts)}"
        if make.threshold is None:
            told = make.reported(value, f"{sentence} No threshold was set.")
            return told.model_copy(update={"interval": interval})
        return make.judged(
            value, reason=self.reason, fired=f"{sentence} {self.remedy}".strip(), passed=sentence, interval=interval,
        )  # fmt: skip

    def _words(self, pairs: Pairs) -> str:
        if pairs.error_reduction is None:
            return f"{self.did} makes {counted(pairs.second, 'error')}, and {self.over} none."
        gain = pairs.error_reduction
        verb = "removes" if gain >= 0 else "adds"
        points = f"{100 * pairs.difference:+.1f} pp".replace("-", "−")
        return f"{self.did} {verb} {100 * abs(gain):.1f} % of the errors of {self.over} ({points})."


class ReadoutGain(OfReadouts):
    """The share of the errors of a linear readout of h_0 that one of h_L removes."""

    letter = "r"
    title = "readout gain"
    question = "Does a linear readout find more behind the blocks than before them?"
    meaning = "the blocks make nothing linearly readable that was not before"
    subject = "what the blocks add for a linear readout"
    reason = "blocks add nothing that a linear readout finds"
    remedy = "Compare with a network of the stem and the head alone: the blocks may be idle."
    thresholds = {"readout_gain_floor": Threshold(None, "<", "readout gain h_0 → h_L", most=1, sweep=GRID)}  # noqa: RUF012
    quantities = (Quantity("readouts", "linear readouts"),)
    over = "a linear readout of h_0"
    did = "A linear readout of h_L"

    @staticmethod
    def answers(readouts: Readouts) -> tuple[Answered, Answered]:
        """Of h_L, and of h_0."""
        return readouts.correct[-1], readouts.correct[0]


class StemGain(OfReadouts):
    """The share of the errors of a linear readout of h_0 that the network itself removes."""

    letter = "w"
    title = "gain over the stem"
    question = "Is the network better than a linear readout of what its stem hands to the blocks?"
    meaning = "a linear readout of the stem does as well as the whole network"
    subject = "what the network adds to its stem"
    reason = "network no better than a linear readout of its stem"
    remedy = "Report the accuracy of that readout beside the network's."
    thresholds = {"stem_gain_floor": Threshold(None, "<", "gain over a readout of h_0", most=1, sweep=GRID)}  # noqa: RUF012
    over = "a linear readout of h_0"
    did = "The network"

    @staticmethod
    def answers(readouts: Readouts) -> tuple[Answered, Answered]:
        """The network's own, and those of h_0."""
        return readouts.own, readouts.correct[0]


class HeadGain(OfReadouts):
    """The share of the errors of a linear readout of h_L that the network's own head removes."""

    letter = "q"
    title = "own head"
    question = "Does the network's own head find what a linear readout of h_L finds?"
    meaning = "the head does not use what is in the last site"
    subject = "whether the head uses what the blocks make"
    reason = "own head worse than a linear readout of the same site"
    remedy = "Train the head longer, or look at what lies between the last block and the logits."
    thresholds = {"head_gain_floor": Threshold(None, "<", "gain over a readout of h_L", most=1, sweep=GRID)}  # noqa: RUF012
    over = "a linear readout of h_L"
    did = "The network's own head"

    @staticmethod
    def answers(readouts: Readouts) -> tuple[Answered, Answered]:
        """The network's own, and those of h_L."""
        return readouts.own, readouts.correct[-1]


class HeadGap(OfReadouts):
    """The accuracy of the network's own head minus that of a linear readout of h_L, in points.

    `own head` asks for a share of errors, which is large where there are few. A network whose head misses the labels of
    the test set by many points, while a readout of the same site finds them, was trained on other ones.
    """

    letter = "hg"
    title = "head gap"
    question = "Is the network's own head behind a linear readout of the same site?"
    meaning = "the network's own head is far behind a linear readout of its last site"
    subject = "whether the head keeps up with a linear readout"
    reason = "own head far behind a linear readout of its site"
    remedy = "Look at the labels that it was trained on, and at how long the head was trained."
    thresholds = {  # noqa: RUF012
        "head_gap_floor": Threshold(
            None, "<", "own head minus a readout of h_L", least=-100, most=100, unit="pp",
            sweep=even_grid(-50, 20, 1.0),
        ),
    }  # fmt: skip
    signed = True
    listed = "never"

    @staticmethod
    def answers(readouts: Readouts) -> tuple[Answered, Answered]:
        """The network's own, and those of h_L."""
        return readouts.own, readouts.correct[-1]

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the gap is under the floor; reported where none is given."""
        from walkback.protocol.uncertainty import LEVEL

        make, readouts = self.reading_maker(), measured.readouts
        if readouts is None:
            return make.not_measured(measured.no_readouts or NOT_ASKED)
        numbers = measured.site_numbers
        if numbers is not None and numbers[-1] != measured.last_site:
            return make.not_measured("It is read at the last site, which was left out.")
        pairs = Pairs.of(*self.answers(readouts))
        gap, interval = 100 * pairs.difference, pairs.difference_interval(LEVEL)
        own, other = (f"{100 * each.share:.1f} %" for each in self.answers(readouts))
        words = f"The network's own head is at {own}, a linear readout of h_L at {other}."
        if make.threshold is None:
            told = make.reported(gap, f"{words} No least gap was given to judge it by.")
            return told.model_copy(update={"interval": interval})
        return make.judged(
            gap, reason=self.reason, fired=f"{words} {self.remedy}", passed=words, interval=interval,
        )  # fmt: skip


def gain_interval(pairs: Pairs, readouts: Readouts) -> Interval | None:
    """The paired interval, with as many samples as each readout was fitted on.

    The readouts vary with the samples that they were fitted on, which an interval over the answers alone leaves out:
    with all samples counted it would hold the truth less often than it says.
    """
    from walkback.protocol.uncertainty import LEVEL

    interval = pairs.error_reduction_interval(LEVEL, readouts.fitted_share)
    how = f"; counted as the {readouts.fitted_share:.0%} that a readout is fitted on"
    return interval and interval.model_copy(update={"how": interval.how + how})


def accuracies_in_words(readouts: Readouts) -> str:
    """The accuracy of the readout of every site with its interval, and how it was made."""
    from walkback.protocol.uncertainty import wilson

    parts = []
    for answered in readouts.correct:
        low, high = wilson(answered.share, readouts.fitted_share * answered.samples)
        parts.append(f"{100 * answered.share:.1f} [{100 * low:.1f}, {100 * high:.1f}]")
    how = f"{readouts.folds}-fold cross-validated ridge on {readouts.own.samples:,} samples{readouts.narrowed}"
    return f"Readouts per site, in %: {', '.join(parts)}; own head {100 * readouts.own.share:.1f} ({how})."
