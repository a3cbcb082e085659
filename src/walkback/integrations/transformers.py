"""Hugging Face transformers: a callback that stops a run which is already lost.

    Trainer(model=model, args=args, ..., callbacks=[WalkbackCallback(trace="trace.jsonl")])

Needs `pip install "walkback[transformers]"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from walkback.extras import optional
from walkback.integrations.watching import Watching
from walkback.watch.monitor import Monitor

_TrainerCallback: Any = optional("transformers").TrainerCallback


class WalkbackCallback(_TrainerCallback):  # type: ignore[misc]
    """Measures the network during `Trainer.train`, and sets `control.should_training_stop` where the run is lost.

    It measures at every evaluation (at the end of every epoch, where there is none), and in between as the budget of
    its monitor allows. Needs `pip install "walkback[transformers]"`.

    Args:
        batches: held-out batches, as the model takes them, with `labels`; those of the evaluation loader where not
            given.
        accuracy: the metric of an evaluation, in [0, 1], that goes into the trace.
        read_training: True reads the training passes in place of passes of the monitor's own, for networks trained by
            backpropagation.
        **settings: everything else that `walkback.Monitor` takes.

    Raises:
        MissingLibrary: transformers is not installed.
        InputError: when training starts, there are no held-out batches; and as for `Monitor`.

    Examples:
        >>> from walkback.integrations.transformers import WalkbackCallback
        >>> callback = WalkbackCallback(trace="trace.jsonl", stop_on="a")
        >>> callback.monitor is None  # until trainer.train() begins
        True
    """

    def __init__(
        self,
        batches: Iterable[Any] | None = None,
        *,
        accuracy: str = "eval_accuracy",
        read_training: bool = False,
        **settings: Any,
    ) -> None:
        self.accuracy = accuracy
        self._watching = Watching(batches, read_training, settings)
        self._resumed = False

    @property
    def monitor(self) -> Monitor | None:
        """The monitor; None before training starts."""
        return self._watching.monitor

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to watch, or wait for the first evaluation where the held-out batches are the trainer's own."""
        self._resumed = state.global_step > 0
        if self._watching.batches is not None or kwargs.get("eval_dataloader") is not None:
            self._begin(args, kwargs)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A training step."""
        _stop_if(control, self._watching.training_step(state.global_step))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The end of an epoch, where no evaluation follows."""
        if str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "no":
            self._epoch_end(args, state, control, None, kwargs)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        """An evaluation, with its metrics."""
        self._epoch_end(args, state, control, (metrics or {}).get(self.accuracy), kwargs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take the hooks off."""
        self._watching.end()

    def _begin(self, args: Any, kwargs: dict[str, Any]) -> None:
        scale = 1 / args.gradient_accumulation_steps
        self._watching.begin(kwargs["model"], kwargs.get("eval_dataloader"), scale, self._resumed)

    def _epoch_end(self, args: Any, state: Any, control: Any, accuracy: float | None, kwargs: dict[str, Any]) -> None:
        if self.monitor is None:
            self._begin(args, kwargs)
        _stop_if(control, self._watching.epoch_end(state.epoch, accuracy, state.global_step))


def _stop_if(control: Any, stop: bool) -> None:
    if stop:
        control.should_training_stop = True
