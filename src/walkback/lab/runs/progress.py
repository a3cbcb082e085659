"""What a training run tells whoever watches it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from walkback.lab.runs.epochs import EpochRecord


class EpochDone(NamedTuple):
    """An epoch that has been trained, measured and saved."""

    record: EpochRecord
    epochs: int
    seconds_left: float
    """By the pace of the epochs trained in this process; 0 where there is none yet."""


class Progress(Protocol):
    """A watcher; the trace file says the same to other processes."""

    def started(self, done: int, epochs: int) -> None:
        """Training starts, or goes on after that many epochs."""

    def within(self, epoch: int, share: float) -> None:
        """This share of an epoch's batches is done."""

    def epoch_done(self, event: EpochDone) -> None:
        """An epoch has ended."""


class Silent:
    """Watches nothing."""

    def started(self, done: int, epochs: int) -> None:
        """Nothing."""

    def within(self, epoch: int, share: float) -> None:
        """Nothing."""

    def epoch_done(self, event: EpochDone) -> None:
        """Nothing."""
