"""The training loss of a run, epoch after epoch, from which its decrease follows. No torch."""

from __future__ import annotations

from typing import TypeVar

from walkback.protocol.records import Measurements, TrainingLoss
from walkback.watch.moment import At, Place, no_later

Known = TypeVar("Known", bound=Measurements)


class LossCourse:
    """The losses of the epochs that are known; one of an earlier moment than the last takes the run back to there.

    The first epoch is 1, or 0 where that has a training loss: the network before training has none. A loss at a step,
    or at a fraction of an epoch, is not that of an epoch.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[Place, int, float]] = []

    def see(self, at: At, loss: float | None) -> TrainingLoss | None:
        """Take in one moment; what is known of the decrease by then."""
        while self._seen and no_later(at.place, self._seen[-1][0]):
            self._seen.pop()
        if loss is not None and at.epoch is not None and at.epoch == int(at.epoch) >= 0:
            self._seen.append((at.place, int(at.epoch), loss))
        return self._decrease()

    def _decrease(self) -> TrainingLoss | None:
        if not self._seen:
            return None
        start = self._seen[0][1]
        if start > 1:
            return None  # the first epochs are not on record
        first = self._seen[0][2]
        for _, epoch, loss in self._seen[1:]:  # of several lines of one epoch the last counts
            if epoch != start:
                break
            first = loss
        _, epoch, last = self._seen[-1]
        return TrainingLoss(first=first, last=last, first_epoch=start, last_epoch=epoch) if epoch > start else None

    def with_decrease(self, at: At, loss: float | None, measured: Known) -> Known:
        """The measurements of a moment with the decrease up to it, where it is known."""
        found = self.see(at, loss)
        return measured if found is None else measured.model_copy(update={"training_loss": found})
