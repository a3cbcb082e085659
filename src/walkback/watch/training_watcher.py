"""The part of a monitor that reads the user's own training passes, in place of passes of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.budget import Cadence, Clock
from walkback.watch.probe import Probe
from walkback.watch.probed import pass_of
from walkback.watch.training_pass import LossReduction, TrainingPass

Watching = TypeVar("Watching", bound="TrainingWatcher")


class TrainingWatcher:
    """Hooks on a network that read the norms of its training passes; a `Monitor` is one."""

    probe: Probe
    thresholds: DiagnosticThresholds
    cadence: Cadence
    clock: Clock
    steps: int
    training_pass: TrainingPass | None = None

    @contextmanager
    def watch_training(
        self: Watching, loss_reduction: LossReduction = "mean", loss_scale: float | Callable[[], float] = 1.0
    ) -> Iterator[Watching]:
        """Read the training passes inside the context, instead of running passes of the monitor's own.

        This is for networks trained by backpropagation, whose passes hold the true gradient. It gives the norms for
        (a) and (b) at the training steps that the cadence chooses. With `every=1` each step is looked at; it is judged
        and written where the norm at the deepest site has changed by a tenth, or comes near to firing.

        Args:
            loss_reduction: how the loss is made of the losses of its samples: `mean` or `sum`.
            loss_scale: what the loss is multiplied by before `backward`, or a function that says so: 1/k for k
                micro-batches, `scaler.get_scale` of an AMP scaler.

        Yields:
            The monitor.

        Raises:
            InputError: the model is compiled, its backward pass is not the gradient of its loss, or `loss_reduction`
                is neither word.

        Cost:
            No pass over the batches: two norms at every site in a pass that is made anyway.

        Caveat:
            Where the first block reads the input of the network itself, training computes no gradient there, and
            nothing is read from its passes: a `WalkbackWarning` says so. Name `blocks` that come after the first
            layer, or leave `watch_training` out.

        Examples:
            >>> import torch, walkback
            >>> _ = torch.manual_seed(0)
            >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
            >>> inputs, labels = torch.randn(64, 8), torch.randint(8, (64,))
            >>> monitor = walkback.Monitor(model, [(inputs, labels)], blocks=["1", "2"], every=1)
            >>> with monitor.watch_training():
            ...     torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            ...     monitor.step().measured
            True
        """
        self.attach(loss_reduction, loss_scale)
        try:
            yield self
        finally:
            self.detach()

    def attach(self, loss_reduction: LossReduction = "mean", loss_scale: float | Callable[[], float] = 1.0) -> None:
        """Begin what `watch_training` does, until `detach`.

        Args:
            loss_reduction: as for `watch_training`.
            loss_scale: as for `watch_training`.

        Raises:
            InputError: as for `watch_training`.
        """
        self.detach()
        self.training_pass = pass_of(self.probe, self.thresholds, loss_reduction, loss_scale)
        self.training_pass.arm(self.cadence.due(self.steps + 1, self.clock))

    def detach(self) -> None:
        """End what `attach` began, and take its hooks off the network."""
        if self.training_pass is not None:
            self.training_pass.detach()
            self.training_pass = None
