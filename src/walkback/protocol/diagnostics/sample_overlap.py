"""Overlap: are test samples among those that the network was trained on?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold, log_grid
from walkback.protocol.records import Measurements, Overlap, Reading

PLAINLY = (
    "Exact duplicates only, as the batches give them: a copy that was cropped, flipped or stored again with other "
    "digits is not found."
)


class SampleOverlap(Diagnostic):
    """The share of test samples whose inputs are, bit for bit, those of a training sample."""

    letter = "o"
    title = "overlap"
    question = "Are test samples among those that the network was trained on?"
    meaning = "the accuracy is in part on samples that were trained on"
    subject = "whether test samples were trained on"
    reason = "test samples in the training set"
    remedy = "Leave them out of the test set, and score the network again."
    thresholds = {  # noqa: RUF012
        "overlap_ceiling": Threshold(None, ">", "share of test samples trained on", least=0, most=1,
                                     sweep=log_grid(-4, 0)),
    }  # fmt: skip
    quantities = (Quantity("overlap", "overlap of training and test samples"),)
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """FIRE where the share is above the ceiling; reported where none is given. It has no interval: all samples of
        the batches were looked at."""
        make, overlap = self.reading_maker(), measured.overlap
        if overlap is None:
            return make.not_measured("The training samples are not known: pass train_batches=.")
        words = f"{_counted(overlap)} {PLAINLY}"
        if make.threshold is None:
            return make.reported(overlap.share, f"{words} No ceiling was given to judge it by.")
        return make.judged(overlap.share, reason=self.reason, fired=f"{words} {self.remedy}", passed=words)


def _counted(overlap: Overlap) -> str:
    of = f"{overlap.test_samples:,} test samples"
    trained = f"{overlap.train_samples:,} training samples"
    if not overlap.count:
        return f"None of {of} is among {trained}."
    shown = ", ".join(f"{test} is {train}" for test, train in overlap.examples[:4])
    same = f"{overlap.same_label:,} with the same label"
    return f"{overlap.count:,} of {of} are among {trained}, {same} (test sample {shown}, counted from 0)."
