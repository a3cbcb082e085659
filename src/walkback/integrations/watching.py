"""What the callbacks share: a monitor on the first process, and one decision for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from walkback.errors import InputError
from walkback.watch.monitor import Monitor


class Watching:
    """A monitor that follows a trainer's events.

    Under several processes the first one measures at the ends of epochs, and all follow its decision; the others
    cannot know when a time budget allows a measurement in between.
    """

    def __init__(self, batches: Iterable[Any] | None, read_training: bool, settings: dict[str, Any]) -> None:
        self.batches, self.read_training, self.settings = batches, read_training, settings
        self.monitor: Monitor | None = None

    def begin(self, model: nn.Module, fallback: Iterable[Any] | None, loss_scale: float, resumed: bool = False) -> None:
        """Build the monitor, or go on with the one that there is; `fallback` are the trainer's own held-out batches.

        A trainer that goes on from a checkpoint goes on with its trace too.
        """
        if self.monitor is None and _rank() == 0:
            batches = self.batches if self.batches is not None else fallback
            if batches is None:
                raise InputError(
                    "the monitor has no held-out batches: give WalkbackCallback batches=, or the trainer a "
                    "validation set."
                )
            # A run with a name says by that which trace is its own.
            going_on = {"resume": resumed and self.settings.get("run") is None}
            self.monitor = Monitor(model, batches, **(going_on | self.settings))
        if self.monitor is not None and self.read_training:
            self.monitor.attach(loss_scale=loss_scale)

    def training_step(self, step: int) -> bool:
        """Tell the monitor of a training step; whether to stop."""
        return not _several() and self.monitor is not None and self.monitor.step(step=step).stop

    def epoch_end(self, epoch: float, accuracy: float | None, step: int) -> bool:
        """Measure; whether to stop, on all processes."""
        stop = self.monitor is not None and self.monitor.step(epoch=epoch, accuracy=accuracy, step=step).stop
        if not _several():
            return stop
        device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else "cpu"
        vote = torch.tensor([int(stop)], device=device)
        dist.broadcast(vote, src=0)
        return bool(vote.item())

    def end(self) -> None:
        """Take the hooks off."""
        if self.monitor is not None:
            self.monitor.detach()


def _several() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _rank() -> int:
    return dist.get_rank() if _several() else 0
