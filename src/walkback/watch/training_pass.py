"""Reading the training pass itself: norms of the stream and of its gradient, as the user's own passes go by.

For networks that are trained by backpropagation of a loss. Nothing is computed again and nothing is changed: hooks
look at what each block hands on and at the gradient that comes back. It is the network in train mode, on training
batches; under BatchNorm the gradient of one sample's h_l contains its influence on the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, InputError
from walkback.protocol import numerics
from walkback.protocol.batches import logits_of
from walkback.protocol.calls import floating_tensors
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Chain, Tap
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.pass_norms import PassNorms, nothing_new, reading_of

LossReduction = Literal["mean", "sum"]
MOST_PASSES = 16
"""How many forward passes between two steps are kept: micro-batches, of which a few show what all of them do."""


class TrainingPass:
    """Hooks on the sites of a network that is being trained; they look only while `armed`."""

    def __init__(
        self,
        model: nn.Module,
        chain: Chain,
        reduction: TokenReduction,
        thresholds: DiagnosticThresholds,
        loss_reduction: LossReduction = "mean",
        loss_scale: float | Callable[[], float] = 1.0,
    ) -> None:
        if loss_reduction not in ("mean", "sum"):
            raise InputError(f"loss_reduction is {loss_reduction!r}; expected 'mean' or 'sum'.")
        self.model, self.chain, self.reduction, self.thresholds = model, chain, reduction, thresholds
        self.loss_reduction, self.loss_scale = loss_reduction, loss_scale
        self.armed = True
        self.spent = 0.0
        """Seconds inside the hooks since the last reading."""
        self.full = True
        """Whether everything is read, or just enough to see that nothing has changed."""
        self.last: Measurements | None = None
        self._passes: list[PassNorms] = []
        self._visits: Counter[tuple[nn.Module, str]] = Counter()
        self._called_often = any(tap.nth > 0 for tap in chain.taps)
        self._handles: list[Any] = []

    def attach(self) -> None:
        """Add the hooks."""
        self._handles.append(self.model.register_forward_pre_hook(self._starting))
        for module in dict.fromkeys(tap.module for tap in self.chain.taps):
            ends = {tap.end for tap in self.chain.taps if tap.module is module}
            if "input" in ends:
                self._handles.append(module.register_forward_pre_hook(self._entering, with_kwargs=True))
            if "output" in ends:
                self._handles.append(module.register_forward_hook(self._leaving))
        self._handles.append(self.model.register_forward_hook(self._ending))

    def detach(self) -> None:
        """Remove the hooks, and no others."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._passes.clear()

    def take(self) -> Measurements | None:
        """What the passes since the last step showed; None where there is nothing to judge.

        That is where no pass went all the way and back, where light passes showed nothing new, and where they did:
        the next passes are then read in full.
        """
        passes = [seen for seen in self._passes if seen.done and seen.full == self.full]
        self._passes.clear()
        if not passes:
            return None
        scale = self.loss_scale() if callable(self.loss_scale) else self.loss_scale
        # The gradient of a loss averaged over n samples is that of each sample's own loss over n.
        factors = [(seen.samples if self.loss_reduction == "mean" else 1) / scale for seen in passes]
        if not self.full:
            assert self.last is not None
            looks = zip(passes, factors, strict=True)
            self.full = not all(nothing_new(*look, self.last, self.thresholds) for look in looks)
            return None
        if len({seen.error is None for seen in passes}) > 1:
            for seen in passes:
                seen.error = None
        self.last, self.full = reading_of(passes, factors), False
        return self.last

    def arm(self, armed: bool) -> None:
        """Look at the next passes or do not; step upon step they are looked at lightly while nothing changes."""
        self.full = self.full or not (armed and self.armed) or self.last is None
        self.armed = armed

    def _looking(self) -> bool:
        return self.armed and self.model.training and torch.is_grad_enabled()

    def _begin(self) -> PassNorms:
        self._visits.clear()
        self._passes.append(PassNorms(len(self.chain.taps), self.full))
        del self._passes[:-MOST_PASSES]
        return self._passes[-1]

    def _starting(self, module: nn.Module, args: Any) -> None:
        if self._looking():
            self._begin()

    def _entering(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._looking():
            self._visit(module, "input", (args, kwargs))

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._looking():
            self._visit(module, "output", output)

    def _visit(self, module: nn.Module, end: str, value: Any) -> None:
        begun = perf_counter()
        current = self._current(module, end)
        site = len(current.hiddens)
        nth = 0
        if self._called_often:
            nth = self._visits[module, end]
            self._visits[module, end] += 1
        # Recomputation under activation checkpointing visits again, when every site is taken.
        if site < len(self.chain.taps):
            tap = self.chain.taps[site]
            if tap.module is module and tap.end == end and tap.nth == nth:
                self._read(current, site, tap, value)
        self.spent += perf_counter() - begun

    def _current(self, module: nn.Module, end: str) -> PassNorms:
        """The pass that a visit belongs to; a model may be called by its parts alone, and begins at h_0 then."""
        first = self.chain.taps[0]
        if not self._passes or (self._passes[-1].forward_done and (module, end) == (first.module, first.end)):
            return self._begin()
        return self._passes[-1]

    def _read(self, current: PassNorms, site: int, tap: Tap, value: Any) -> None:
        tensors = floating_tensors(value)
        if tap.position >= len(tensors):
            return
        stream = tensors[tap.position]
        current.hiddens.append(self._norms(current, stream, tap))
        if stream.requires_grad and (current.full or current.forward_done):
            stream.register_hook(self._keeper(current, site, tap))  # type: ignore[no-untyped-call]

    def _keeper(self, current: PassNorms, site: int, tap: Tap) -> Callable[[Tensor], None]:
        def keep(grad: Tensor) -> None:
            begun = perf_counter()
            current.grads[site] = self._norms(current, grad, tap)
            self.spent += perf_counter() - begun

        return keep

    def _ending(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self._looking() or not self._passes or not self._passes[-1].full:
            return
        current = self._passes[-1]
        try:
            logits = logits_of(output)
        except BatchError:  # a model that returns its loss alone has no error to look at
            return

        def keep(grad: Tensor) -> None:
            current.error = numerics.norms(grad.detach().flatten(1))

        if logits.requires_grad and logits.ndim > 1:
            logits.register_hook(keep)  # type: ignore[no-untyped-call]

    def _norms(self, current: PassNorms, site: Tensor, tap: Tap) -> Tensor:
        site = site.detach()
        if site.ndim == 3 and tap.samples_axis == 1:
            site = site.transpose(0, 1)
        return current.norms(site, self.reduction)
