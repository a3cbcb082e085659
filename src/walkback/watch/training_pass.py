"""Reading the training pass itself: norms of the stream and of its gradient, as the user's own passes go by.

For networks that are trained by backpropagation of a loss. Nothing is computed again and nothing is changed: hooks
look at what each block hands on and at the gradient that comes back. It is the network in train mode, on training
batches; under BatchNorm the gradient of one sample's h_l contains its influence on the others.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, InputError, WalkbackWarning
from walkback.protocol import numerics
from walkback.protocol.function_taps import FunctionTaps, needs_functions
from walkback.protocol.outputs import Logits, logits_beside_loss
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Chain, Tap
from walkback.protocol.tensors import floating_tensors
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.pass_norms import Level, PassNorms, look_at, read_in_full

LossReduction = Literal["mean", "sum"]
MOST_PASSES = 16
"""How many forward passes between two steps are kept: micro-batches, of which a few show what all of them do."""
MOST_LOOKS = 50
"""After so many light looks in a row a pass is read in full whatever they show: the sites in between are then seen."""


class TrainingPass:
    """Hooks on the sites of a network that is being trained: none, a few or all, as the next pass is to be read."""

    def __init__(
        self,
        model: nn.Module,
        chain: Chain,
        reduction: TokenReduction,
        thresholds: DiagnosticThresholds,
        loss_reduction: LossReduction = "mean",
        loss_scale: float | Callable[[], float] = 1.0,
        logits: Logits = None,
    ) -> None:
        if loss_reduction not in ("mean", "sum"):
            raise InputError(f"loss_reduction is {loss_reduction!r}; expected 'mean' or 'sum'.")
        self.model, self.chain, self.reduction, self.thresholds = model, chain, reduction, thresholds
        self.loss_reduction, self.loss_scale, self.logits = loss_reduction, loss_scale, logits
        self.armed = False
        self.full = True
        """Whether every site is read, or the ends of the stream alone, to see whether anything has changed."""
        self.spent = 0.0
        """Seconds inside the hooks since the last reading."""
        self.last: Level | None = None
        """Of the last pass that was read in full."""
        self._looks = 0
        self._warned = False
        self._copying = False
        self._watching = False
        self._called_often = any(tap.nth > 0 or tap.step for tap in chain.taps)
        """Whether only counting from the start of a pass tells where a site is read."""
        self._functions = FunctionTaps(chain.taps, self._made) if needs_functions(chain.taps) else None
        self._passes: list[PassNorms] = []
        self._visits: Counter[tuple[nn.Module, str]] = Counter()
        self._hooked: tuple[bool, bool] | None = None
        self._handles: list[Any] = []

    def arm(self, armed: bool) -> None:
        """Read the next passes or do not; step upon step they are looked at lightly while nothing changes."""
        self.full = self.full or not (armed and self.armed)
        self.armed = armed
        if self._hooked != (armed, self.full):
            self.detach()
            self.attach()

    def attach(self) -> None:
        """Add the hooks that the next pass needs; a hook that does nothing would still cost time."""
        self._hooked = (self.armed, self.full)
        if not self.armed:
            return
        for module in dict.fromkeys(tap.module for tap in self._taps):
            ends = {tap.end for tap in self._taps if tap.module is module}
            if "input" in ends:
                self._handles.append(module.register_forward_pre_hook(self._entering, with_kwargs=True))
            if "output" in ends:
                self._handles.append(module.register_forward_hook(self._leaving))
        if self._called_often:
            self._handles.append(self.model.register_forward_pre_hook(self._starting))
        if self._functions is not None:
            self._handles.append(self.model.register_forward_pre_hook(self._watch_functions))
            self._handles.append(self.model.register_forward_hook(self._leave_functions, always_call=True))
        if self.full:
            self._handles.append(self.model.register_forward_hook(self._ending))

    def detach(self) -> None:
        """Remove the hooks, and no others."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._passes.clear()
        self._hooked = None

    @property
    def _taps(self) -> Sequence[Tap]:
        # Calls of one module can only be told apart by counting all of them.
        every = self.full or self._called_often
        return self.chain.taps if every else (self.chain.taps[0], self.chain.taps[-1])

    def take(self) -> Measurements | None:
        """What the passes since the last step showed; None where there is nothing to judge.

        That is where no pass went all the way and back, where light looks showed nothing new, and where they did:
        the next passes are then read in full.
        """
        passes = [seen for seen in self._passes if seen.done]
        if not passes and any(seen.without_gradient for seen in self._passes):
            self._warn_once()
        self._passes.clear()
        if not passes:
            return None
        scale = self.loss_scale() if callable(self.loss_scale) else self.loss_scale
        # The gradient of a loss averaged over n samples is that of each sample's own loss over n.
        factors = [(seen.samples if self.loss_reduction == "mean" else 1) / scale for seen in passes]
        if not self.full:
            self._look(passes, factors)
            return None
        if len({seen.error is None for seen in passes}) > 1:
            for seen in passes:
                seen.error = None
        measured, self.last = read_in_full(passes, factors)
        self.full, self._looks = False, 0
        return measured

    def _warn_once(self) -> None:
        """That nothing can be read here, where it would otherwise be silent."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"watch_training measures nothing on this network: training computes no gradient at "
                f"'{self.chain.taps[0]}', which is the input of the network or comes from frozen layers. Pass blocks= "
                "that come after the first layer that learns, or leave out watch_training: the monitor's own "
                "measurements work.",
                WalkbackWarning,
                stacklevel=6,
            )

    def _look(self, passes: Sequence[PassNorms], factors: Sequence[float]) -> None:
        """Whether to read the next passes in full."""
        assert self.last is not None
        self._looks += 1
        if not all(seen.intact for seen in passes):
            # A network that adds to the stream in place; from now on its sites are copied.
            self._copying = True
            return
        levels = (look_at(seen, self.reduction, factor) for seen, factor in zip(passes, factors, strict=True))
        quiet = all(at is not None and at.calm(self.thresholds) and at.much_like(self.last) for at in levels)
        self.full = not quiet or self._looks >= MOST_LOOKS

    def _looking(self) -> bool:
        return self.model.training and torch.is_grad_enabled()

    def _begin(self) -> PassNorms:
        self._visits.clear()
        self._passes.append(PassNorms(len(self._taps), self.full))
        del self._passes[:-MOST_PASSES]
        return self._passes[-1]

    def _starting(self, module: nn.Module, args: Any) -> None:
        if self._looking():
            self._begin()

    def _watch_functions(self, module: nn.Module, args: Any) -> None:
        assert self._functions is not None
        if self._looking():
            self._functions.__enter__()  # type: ignore[no-untyped-call]
            self._watching = True

    def _leave_functions(self, module: nn.Module, args: Any, output: Any) -> None:
        assert self._functions is not None
        if self._watching:
            self._watching = False
            self._functions.__exit__(None, None, None)

    def _made(self, tap: Tap, stream: Tensor) -> None:
        """A function has made what may be the next site."""
        begun = perf_counter()
        current, taps = self._passes[-1], self._taps
        site = len(current.hiddens)
        if site < len(taps) and taps[site] is tap:
            self._keep(current, site, tap, stream)
        self.spent += perf_counter() - begun

    def _entering(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._looking():
            self._visit(module, "input", (args, kwargs))

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._looking():
            self._visit(module, "output", output)

    def _visit(self, module: nn.Module, end: str, value: Any) -> None:
        begun = perf_counter()
        nth = 0
        if self._called_often:
            nth = self._visits[module, end]
            self._visits[module, end] += 1
        current, taps = self._current(module, end), self._taps
        site = len(current.hiddens)
        # Recomputation under activation checkpointing visits again, when every site is taken.
        if site < len(taps):
            tap = taps[site]
            if tap.module is module and tap.end == end and tap.nth == nth and not tap.step:
                self._read(current, site, tap, value)
        if self._functions is not None:
            self._functions.passed(module, end, nth)
        self.spent += perf_counter() - begun

    def _current(self, module: nn.Module, end: str) -> PassNorms:
        """The pass that a visit belongs to: it begins at h_0, or where the model is called."""
        first = self.chain.taps[0]
        at_start = module is first.module and end == first.end and not self._called_often
        return self._begin() if at_start or not self._passes else self._passes[-1]

    def _read(self, current: PassNorms, site: int, tap: Tap, value: Any) -> None:
        tensors = floating_tensors(value)
        if tap.position >= len(tensors):
            return
        self._keep(current, site, tap, tensors[tap.position])

    def _keep(self, current: PassNorms, site: int, tap: Tap, stream: Tensor) -> None:
        current.hiddens.append(self._taken(current, stream, tap))
        current.without_gradient |= site == 0 and not stream.requires_grad
        if stream.requires_grad and (current.full or current.forward_done):
            stream.register_hook(self._keeper(current, site, tap))  # type: ignore[no-untyped-call]

    def _keeper(self, current: PassNorms, site: int, tap: Tap) -> Callable[[Tensor], None]:
        def keep(grad: Tensor) -> None:
            begun = perf_counter()
            current.grads[site] = self._taken(current, grad, tap)
            self.spent += perf_counter() - begun

        return keep

    def _ending(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self._looking() or not self._passes:
            return
        current = self._passes[-1]
        try:
            logits = logits_beside_loss(output, self.logits)
        except BatchError:  # a model that returns its loss alone has no error to look at
            return

        def keep(grad: Tensor) -> None:
            current.error = numerics.norms(grad.detach().flatten(1))

        if logits.requires_grad and logits.ndim > 1:
            logits.register_hook(keep)  # type: ignore[no-untyped-call]

    def _taken(self, current: PassNorms, site: Tensor, tap: Tap) -> Tensor:
        site = site.detach()
        if site.ndim == 3 and tap.samples_axis == 1:
            site = site.transpose(0, 1)
        return current.take(site.clone() if self._copying and not current.full else site, self.reduction)
