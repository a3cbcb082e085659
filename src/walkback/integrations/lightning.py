"""Lightning: a callback that stops a run which is already lost.

    trainer = lightning.Trainer(callbacks=[WalkbackCallback(accuracy="val_acc", trace="trace.jsonl")])

Needs `pip install "walkback[lightning]"`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from walkback.extras import optional
from walkback.integrations.scalars import scalars
from walkback.integrations.watching import Watching
from walkback.watch.monitor import Monitor
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine

# The two packages have Trainers of their own; the one that the caller has imported is meant.
_package = "pytorch_lightning" if "lightning" not in sys.modules and "pytorch_lightning" in sys.modules else "lightning"
_Callback: Any = optional(_package if _package == "pytorch_lightning" else "lightning.pytorch").Callback


class WalkbackCallback(_Callback):  # type: ignore[misc]
    """Measures the network during `Trainer.fit`, and sets `trainer.should_stop` where the run is lost.

    It measures at the end of every epoch, and in between as the budget of its monitor allows. Every measurement goes to
    the trainer's loggers. Needs `pip install "walkback[lightning]"`.

    Args:
        batches: held-out batches; those of the trainer's first validation loader where not given.
        accuracy: the name of a logged metric in [0, 1] that goes into the trace; none where not given.
        model: a function that returns the part of the LightningModule which maps inputs to logits; the module itself
            where not given.
        read_training: True reads the training passes in place of passes of the monitor's own, for networks trained by
            backpropagation.
        **settings: everything else that `walkback.Monitor` takes.

    Raises:
        MissingLibrary: Lightning is not installed.
        InputError: when training starts, there are no held-out batches; and as for `Monitor`.

    Examples:
        >>> from walkback.integrations.lightning import WalkbackCallback
        >>> callback = WalkbackCallback(accuracy="val_acc", trace="trace.jsonl")
        >>> callback.monitor is None  # until trainer.fit(…) begins
        True
    """

    def __init__(
        self,
        batches: Iterable[Any] | None = None,
        *,
        accuracy: str | None = None,
        model: Callable[[Any], nn.Module] | None = None,
        read_training: bool = False,
        **settings: Any,
    ) -> None:
        self.accuracy, self.choose_model = accuracy, model
        self._watching = Watching(batches, read_training, settings)
        self._trainer: Any = None
        settings["logs"] = (*settings.get("logs", ()), self._log)

    @property
    def monitor(self) -> Monitor | None:
        """The monitor; None before training starts."""
        return self._watching.monitor

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch."""
        self._trainer = trainer
        model = self.choose_model(pl_module) if self.choose_model is not None else pl_module
        scale, resumed = 1 / trainer.accumulate_grad_batches, trainer.global_step > 0
        self._watching.begin(model, _validation_batches(trainer), scale, resumed)

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """A training step."""
        self._stop_if(trainer, self._watching.training_step(trainer.global_step))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """The end of an epoch, with its validation metrics."""
        if not trainer.sanity_checking and trainer.state.fn == "fit":
            self._epoch_end(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """The end of an epoch that has no validation."""
        if not trainer.enable_validation:
            self._epoch_end(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Take the hooks off."""
        self._watching.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Take the hooks off."""
        self._watching.end()

    def _epoch_end(self, trainer: Any) -> None:
        value = trainer.callback_metrics.get(self.accuracy) if self.accuracy is not None else None
        accuracy = float(value) if value is not None else None
        self._stop_if(trainer, self._watching.epoch_end(trainer.current_epoch, accuracy, trainer.global_step))

    def _stop_if(self, trainer: Any, stop: bool) -> None:
        if stop:
            trainer.should_stop = True

    def _log(self, line: TraceLine, decision: Decision) -> None:
        for logger in self._trainer.loggers:
            logger.log_metrics(scalars(line), step=self._trainer.global_step)


def _validation_batches(trainer: Any) -> Iterable[Any] | None:
    """The first validation loader; not its iterator, which would draw from torch's generator."""
    loaders = trainer.val_dataloaders
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    loader: Iterable[Any] | None = loaders[0] if isinstance(loaders, list | tuple) and loaders else loaders
    return loader or None
