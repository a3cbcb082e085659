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

from walkback.errors import InputError
from walkback.protocol import numerics
from walkback.protocol.batches import logits_of
from walkback.protocol.calls import floating_tensors
from walkback.protocol.capture import REFERENCE_BATCH
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Chain, Tap

SAFE_LOW, SAFE_HIGH = 1e-15, 1e18
"""Between these, squares stay so far inside fp32's range that a norm computed there is right."""
MOST_PASSES = 16
"""How many forward passes between two steps are kept: micro-batches, of which a few show what all of them do."""


class Pass:
    """The norms of one forward and backward pass, as far as they have been seen."""

    def __init__(self, sites: int) -> None:
        self.hiddens: list[Tensor] = []
        self.grads: list[Tensor | None] = [None] * sites
        self.error: Tensor | None = None

    @property
    def complete(self) -> bool:
        """Whether every site was passed, forward and back."""
        return len(self.hiddens) == len(self.grads) and all(grad is not None for grad in self.grads)


class TrainingPass:
    """Hooks on the sites of a network that is being trained; they look only while `armed`."""

    def __init__(
        self,
        model: nn.Module,
        chain: Chain,
        reduction: TokenReduction,
        loss_reduction: Literal["mean", "sum"] = "mean",
        loss_scale: float | Callable[[], float] = 1.0,
    ) -> None:
        if loss_reduction not in ("mean", "sum"):
            raise InputError(f"loss_reduction is {loss_reduction!r}; expected 'mean' or 'sum'.")
        self.model, self.chain, self.reduction = model, chain, reduction
        self.loss_reduction, self.loss_scale = loss_reduction, loss_scale
        self.armed = True
        self.spent = 0.0
        """Seconds inside hooks since the last reading."""
        self._passes: list[Pass] = []
        self._visits: Counter[tuple[nn.Module, str]] = Counter()
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

    def _starting(self, module: nn.Module, args: Any) -> None:
        if self._looking():
            self._begin()

    def _looking(self) -> bool:
        return self.armed and torch.is_grad_enabled() and self.model.training

    def _begin(self) -> None:
        self._visits.clear()
        self._passes.append(Pass(len(self.chain.taps)))
        del self._passes[:-MOST_PASSES]

    def _entering(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._looking():
            self._visit(module, "input", (args, kwargs))

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._looking():
            self._visit(module, "output", output)

    def _visit(self, module: nn.Module, end: str, value: Any) -> None:
        begun = perf_counter()
        current = self._passes[-1] if self._passes else None
        first = self.chain.taps[0]
        if current is None or (len(current.hiddens) == len(current.grads) and (module, end) == (first.module, first.end)):
            # A model whose own forward is not called, such as a training step that calls its parts.
            self._begin()
            current = self._passes[-1]
        nth = self._visits[module, end]
        self._visits[module, end] += 1
        site = len(current.hiddens)
        # Recomputation under activation checkpointing visits again, when every site is taken.
        if site < len(current.grads):
            tap = self.chain.taps[site]
            if (tap.module, tap.end, tap.nth) == (module, end, nth):
                self._take(current, site, tap, value)
        self.spent += perf_counter() - begun

    def _take(self, current: Pass, site: int, tap: Tap, value: Any) -> None:
        tensors = floating_tensors(value)
        if tap.position >= len(tensors):
            return
        stream = tensors[tap.position]
        current.hiddens.append(self._norms(stream, tap))
        if stream.requires_grad:
            stream.register_hook(self._keeper(current, site, tap))  # type: ignore[no-untyped-call]

    def _keeper(self, current: Pass, site: int, tap: Tap) -> Callable[[Tensor], None]:
        def keep(grad: Tensor) -> None:
            begun = perf_counter()
            current.grads[site] = self._norms(grad, tap)
            self.spent += perf_counter() - begun

        return keep

    def _ending(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self._looking() or not self._passes:
            return
        logits, current = logits_of(output), self._passes[-1]

        def keep(grad: Tensor) -> None:
            current.error = quick_norms(grad.flatten(1)) if grad.ndim > 1 else grad.abs()

        if logits.requires_grad:
            logits.register_hook(keep)  # type: ignore[no-untyped-call]

    def _norms(self, site: Tensor, tap: Tap) -> Tensor:
        site = site.detach()
        if site.ndim == 3 and tap.samples_axis == 1:
            site = site.transpose(0, 1)
        if site.ndim == 3 and self.reduction is TokenReduction.TOKEN_NORMS:
            return quick_norms(site).mean(dim=1)
        return quick_norms(self.reduction.vectors(site))

    def take(self) -> Measurements | None:
        """What the passes since the last call showed, or None where no pass went all the way and back."""
        passes = [seen for seen in self._passes if seen.complete]
        self._passes.clear()
        if not passes:
            return None
        hiddens = torch.cat([torch.stack(seen.hiddens) for seen in passes], dim=1)
        grads = torch.cat([self._per_sample(seen) for seen in passes], dim=1)
        errors = [seen.error for seen in passes if seen.error is not None]
        error = torch.cat(errors).double() if len(errors) == len(passes) else None
        return _measurements(hiddens, grads, error, [self._factor(len(seen.hiddens[0])) for seen in passes])

    def _per_sample(self, seen: Pass) -> Tensor:
        grads = [grad for grad in seen.grads if grad is not None]
        return torch.stack(grads) * self._factor(len(grads[0]))
