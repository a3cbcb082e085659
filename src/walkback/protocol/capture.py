"""One batch → h_l and g_l at every site, by one forward and one backward pass, activations only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, BlocksError
from walkback.protocol import numerics
from walkback.protocol.batches import Batch
from walkback.protocol.credit import Trace
from walkback.protocol.losses import Loss, error_at_logits
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Chain, Tap, samples_first, stream_tensor

REFERENCE_BATCH = 128
"""The published floor is for a loss averaged over this many samples; gradients are reported that way."""


@dataclass(frozen=True)
class Capture:
    """What one batch shows. Gradients are of each sample's own loss, not divided by any batch size."""

    trace: Trace
    grads: Sequence[Tensor]
    """∂ℓ(x)/∂h_l(x) at each site, shaped like the site."""
    reduction: TokenReduction
    offset: int = 0
    """How many samples came in earlier batches."""

    @property
    def hiddens(self) -> Sequence[Tensor]:
        """h_0 … h_L."""
        return self.trace.hiddens

    @property
    def samples(self) -> int:
        """The number of samples."""
        return int(self.trace.targets.shape[0])

    @cached_property
    def hidden_norms(self) -> Tensor:
        """‖h_l(x)‖, (sites, B)."""
        return torch.stack([self.reduction.norms(h) for h in self.hiddens])

    @cached_property
    def grad_norms(self) -> Tensor:
        """‖∂ℓ(x)/∂h_l(x)‖, (sites, B)."""
        return torch.stack([self.reduction.norms(g) for g in self.grads])

    @cached_property
    def direction_norms(self) -> Tensor:
        """The norms of `grad_vectors`, (sites, B)."""
        if self.reduction is not TokenReduction.TOKEN_NORMS:
            return self.grad_norms
        return torch.stack([numerics.norms(v) for v in self.grad_vectors])

    @cached_property
    def broken_hiddens(self) -> Tensor:
        """Samples with a NaN or Inf in h_l, (sites, B)."""
        return torch.stack([_broken(h, n) for h, n in zip(self.hiddens, self.hidden_norms, strict=True)])

    @cached_property
    def broken_grads(self) -> Tensor:
        """Samples with a NaN or Inf in ∂ℓ/∂h_l, (sites, B)."""
        return torch.stack([_broken(g, n) for g, n in zip(self.grads, self.grad_norms, strict=True)])

    @cached_property
    def error_norms(self) -> Tensor:
        """‖∂ℓ(x)/∂logits(x)‖, (B,)."""
        return numerics.norms(self.trace.error.flatten(1))

    @cached_property
    def grad_vectors(self) -> list[Tensor]:
        """∂ℓ(x)/∂h_l(x) as one vector per sample, (B, D_l) for each site."""
        return [self.reduction.vectors(g) for g in self.grads]


def _broken(site: Tensor, site_norms: Tensor) -> Tensor:
    # The norm of a site shows every NaN and Inf in it, unless only one token was looked at.
    return ~(site_norms.isfinite() if site.ndim != 3 else site.flatten(1).isfinite().all(dim=1))


class SiteReader:
    """Hooks that read the sites of a chain as they pass, and their gradients on the way back."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.values: list[Tensor] = []
        self.grads: dict[int, Tensor] = {}
        self.first: Tensor | None = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Attach the hooks for as long as the context lasts; nobody else's are touched."""
        handles = []
        try:
            for module in dict.fromkeys(tap.module for tap in self.chain.taps):
                handles.append(module.register_forward_pre_hook(self._entering, with_kwargs=True))
                handles.append(module.register_forward_hook(self._leaving))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _next_tap(self) -> Tap | None:
        taken = len(self.values)
        return self.chain.taps[taken] if taken < len(self.chain.taps) else None

    def _entering(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tap = self._next_tap()
        # Recomputation under activation checkpointing calls the hooks again, when every site is taken.
        if tap is None or tap.module is not module or tap.end != "input":
            return None
        if not self.values:
            return self._start(args, kwargs)
        self._take(_required(stream_tensor((args, kwargs)), tap))
        return None

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        tap = self._next_tap()
        if tap is not None and tap.module is module and tap.end == "output":
            self._take(_required(stream_tensor(output), tap))

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Cut the graph at h_0: nothing before it is needed."""
        stream = _required(stream_tensor((args, kwargs)), self.chain.taps[0])
        self.first = stream.detach().clone().requires_grad_()
        self.values.append(self.first.detach())
        # Passing on a copy lets a block that works in place do so without touching what was read.
        passed = self.first.clone()

        def swap(value: Any) -> Any:
            if value is stream:
                return passed
            if isinstance(value, tuple | list):
                return type(value)(map(swap, value))
            return value

        return tuple(map(swap, args)), {name: swap(value) for name, value in kwargs.items()}

    def _take(self, stream: Tensor) -> None:
        index = len(self.values)
        if not stream.requires_grad:
            raise BlocksError(
                f"site '{self.chain.taps[index]}' does not depend on the site before it, so no credit can pass between "
                "them. Pass blocks= with modules that hand the residual stream on."
            )
        # A copy, and a hook rather than retain_grad: later in-place changes must not reach either.
        self.values.append(stream.detach().clone())
        stream.register_hook(lambda grad: self.grads.__setitem__(index, grad.detach()))

    def check_complete(self) -> None:
        """Raise if the forward pass did not visit every site."""
        if len(self.values) < len(self.chain.taps):
            raise BlocksError(
                f"the forward pass reached {len(self.values)} of {len(self.chain.taps)} sites, up to "
                f"'{self.chain.taps[max(len(self.values) - 1, 0)]}'; expected the same path for every batch. "
                "Pass blocks= with modules that every sample goes through."
            )


def _required(stream: Tensor | None, tap: Tap) -> Tensor:
    if stream is None:
        raise BlocksError(f"no floating tensor passes the {tap.end} of {tap.name}; leave it out of blocks=.")
    return stream


def sites_and_grads(
    call: Callable[[], Tensor], chain: Chain, error_of: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """(h_l, ∂ℓ/∂h_l, logits, ∂ℓ/∂logits) for a model call, samples along the first axis of each."""
    reader = SiteReader(chain)
    with reader.attached():
        logits = call()
        reader.check_complete()
        error = error_of(logits)
        if not logits.requires_grad:
            raise BlocksError(
                "the loss does not reach the blocks: the logits do not depend on the residual stream. Pass blocks= with "
                "modules that the output is computed from."
            )
        _backward(reader, logits, error)
    samples = logits.shape[0]
    arranged = [samples_first(h, tap, samples) for h, tap in zip(reader.values, chain.taps, strict=True)]
    grads = [samples_first(reader.grads[i], tap, samples) for i, tap in enumerate(chain.taps)]
    return arranged, grads, logits.detach(), error


def _backward(reader: SiteReader, logits: Tensor, error: Tensor) -> None:
    """Fill the reader's gradients from the error at the logits."""
    assert reader.first is not None
    half = torch.float16 in {logits.dtype, *(value.dtype for value in reader.values)}
    if half:
        _backward_scaled(reader, logits, error)
    else:
        _pull_back(reader, logits, error.to(logits.dtype), keep_graph=False)
    unreached = [i for i in range(len(reader.values)) if i not in reader.grads]
    if unreached:
        raise BlocksError(
            f"the loss does not reach site '{reader.chain.taps[unreached[0]]}'. Pass blocks= with modules that the output "
            "is computed from."
        )


def _pull_back(reader: SiteReader, logits: Tensor, upstream: Tensor, keep_graph: bool) -> None:
    (first,) = torch.autograd.grad(logits, reader.first, upstream, retain_graph=keep_graph, allow_unused=True)
    if first is not None:
        reader.grads[0] = first


HALF_LARGEST, HALF_SMALLEST = 2.0**13, 2.0**6
"""Where the largest entry of a scaled fp16 gradient should lie: far from both ends of the range."""


def _backward_scaled(reader: SiteReader, logits: Tensor, error: Tensor) -> None:
    """Pull an fp16 network's error back scaled per sample by powers of two, then undo the scale in fp64.

    Gradients of an fp16 network underflow inside the backward pass, so no care afterwards can save them.
    """
    rows = error.flatten(1).abs().amax(dim=1)
    per_sample = torch.where(rows > 0, torch.exp2(-torch.ceil(rows.log2())), torch.ones_like(rows))
    per_sample = torch.where(per_sample.isfinite(), per_sample, torch.ones_like(per_sample))
    exponent = 0
    for _ in range(6):
        scale = per_sample * 2.0**exponent
        _pull_back(reader, logits, (error * _rows(scale, error)).to(logits.dtype), keep_graph=True)
        largest = max((float(g.abs().max()) for g in reader.grads.values()), default=0.0)
        if not largest < float("inf"):
            exponent -= 6
        elif 0 < largest < HALF_SMALLEST and exponent < 15:
            exponent = min(15, exponent + int(torch.log2(torch.tensor(HALF_LARGEST / largest))))
        else:
            break
    for index, grad in reader.grads.items():
        samples_axis = 0 if grad.shape[0] == scale.shape[0] else 1
        shape = [-1 if axis == samples_axis else 1 for axis in range(grad.ndim)]
        reader.grads[index] = grad.double() / scale.view(shape)


def _rows(scale: Tensor, like: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (like.ndim - 1))


def capture(
    model: nn.Module,
    chain: Chain,
    batch: Batch,
    loss: Loss | None,
    reduction: TokenReduction,
    offset: int = 0,
) -> Capture:
    """Measure one batch: h_l, g_l, the logits and the error at them."""
    hiddens, grads, logits, error = sites_and_grads(
        lambda: _checked(batch.call(model), batch), chain, lambda logits: error_at_logits(loss, logits, batch.targets)
    )
    trace = Trace(batch.inputs, hiddens, logits, batch.targets, error)
    return Capture(trace, grads, reduction, offset)


def _checked(logits: Tensor, batch: Batch) -> Tensor:
    if logits.ndim < 2 or logits.shape[0] != batch.size:
        raise BatchError(
            f"the model gave an output of shape {tuple(logits.shape)} for {batch.size} targets; expected one row of "
            "logits per sample."
        )
    if not logits.is_floating_point():
        raise BatchError(f"the model gave {logits.dtype} outputs; expected floating-point logits.")
    return logits
