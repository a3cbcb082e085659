"""One batch → h_l and g_l at every site, by one forward and one backward pass, activations only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from walkback.errors import BatchError, BlocksError
from walkback.protocol import numerics
from walkback.protocol.batches import Batch
from walkback.protocol.calls import floating_tensors
from walkback.protocol.credit import Trace
from walkback.protocol.losses import Loss, error_at_logits
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Chain, Tap, samples_first

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
        return numerics.norms(self.trace.error.reshape(self.samples, -1))

    @cached_property
    def broken_logits(self) -> Tensor:
        """Samples with a NaN or Inf in their logits, (B,)."""
        return ~self.trace.logits.reshape(self.samples, -1).isfinite().all(dim=1)

    @cached_property
    def grad_vectors(self) -> list[Tensor]:
        """∂ℓ(x)/∂h_l(x) as one vector per sample, (B, D_l) for each site."""
        return [self.reduction.vectors(g) for g in self.grads]


def _broken(site: Tensor, site_norms: Tensor) -> Tensor:
    # The norm of a site shows every NaN and Inf in it, unless only one token was looked at.
    return ~(site_norms.isfinite() if site.ndim != 3 else site.flatten(1).isfinite().all(dim=1))


class _Begin(torch.autograd.Function):
    """Makes a tensor the root of a graph, in place, and hands the gradient that comes back to `take`.

    In place, because a skip that is added outside the block uses the same tensor; as an operation, because
    a leaf that requires gradients may not be changed in place, and blocks do that.
    """

    @staticmethod
    def forward(ctx: Any, stream: Tensor, root: Tensor, take: Callable[[Tensor], None]) -> Tensor:
        ctx.mark_dirty(stream)
        ctx.take = take
        return stream

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        ctx.take(grads[0])
        return None, grads[0].new_zeros(()), None


class SiteReader:
    """Hooks that read the sites of a chain as they pass, and their gradients on the way back."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.values: list[Tensor] = []
        self.grads: dict[int, Tensor] = {}
        self.root: Tensor | torch.autograd.graph.GradientEdge | None = None
        """What a backward pass has to reach: it lies before h_0, and nothing else does."""
        self._visits: Counter[tuple[nn.Module, str]] = Counter()

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

    def _tap_at(self, module: nn.Module, end: str) -> Tap | None:
        """The next site, if this visit of the module is where it is read."""
        nth = self._visits[module, end]
        self._visits[module, end] += 1
        taken = len(self.values)
        # Recomputation under activation checkpointing visits again, when every site is taken.
        tap = self.chain.taps[taken] if taken < len(self.chain.taps) else None
        return tap if tap is not None and (tap.module, tap.end, tap.nth) == (module, end, nth) else None

    def _entering(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tap = self._tap_at(module, "input")
        if tap is not None:
            stream = _stream_at((args, kwargs), tap)
            if self.values:
                self._take(stream)
            else:
                self._start(stream)

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        tap = self._tap_at(module, "output")
        if tap is not None:
            self._take(_stream_at(output, tap))

    def _start(self, stream: Tensor) -> None:
        """Begin the graph at h_0: nothing before it is needed."""
        self.values.append(stream.detach().clone())
        self.root = torch.zeros((), device=stream.device, dtype=stream.dtype, requires_grad=True)
        owner = stream if stream._base is None else stream._base
        if not isinstance(owner, nn.Parameter) and not stream.requires_grad:
            try:
                # No number changes, and activation checkpointing may hold the tensor at its present version.
                with _unsafe_preserve_version_counter(stream):
                    _Begin.apply(stream, self.root, self._keeper(0))  # type: ignore[no-untyped-call]
                return
            except RuntimeError:  # a view that torch lets nobody change in place
                pass
        # The edge as it is now, so that a later change in place does not move it.
        self.root = torch.autograd.graph.get_gradient_edge(stream.requires_grad_())

    def _take(self, stream: Tensor) -> None:
        index = len(self.values)
        if not stream.requires_grad:
            raise BlocksError(
                f"site '{self.chain.taps[index]}' does not depend on the site before it, so there is no gradient "
                "between them. If the stream is detached there on purpose, diagnose a copy of the model that does "
                "not detach it; else pass blocks= with modules that hand the residual stream on."
            )
        # A copy, and a hook rather than retain_grad: later in-place changes must not reach either.
        self.values.append(stream.detach().clone())
        stream.register_hook(self._keeper(index))  # type: ignore[no-untyped-call]

    def _keeper(self, index: int) -> Callable[[Tensor], None]:
        def keep(grad: Tensor) -> None:
            self.grads[index] = grad.detach()

        return keep

    def pull_back(self, logits: Tensor, upstream: Tensor, keep_graph: bool = False) -> None:
        """Send a gradient at the logits back to every site that it reaches, and no further."""
        self.grads.clear()
        assert self.root is not None
        (at_root,) = torch.autograd.grad(logits, self.root, upstream, retain_graph=keep_graph, allow_unused=True)
        if at_root is not None:
            self.grads.setdefault(0, at_root)

    def check_complete(self) -> None:
        """Raise if the forward pass did not visit every site."""
        if len(self.values) < len(self.chain.taps):
            raise BlocksError(
                f"the forward pass reached {len(self.values)} of {len(self.chain.taps)} sites, up to "
                f"'{self.chain.taps[max(len(self.values) - 1, 0)]}'; expected the same path for every batch. "
                "Pass blocks= with modules that every sample goes through."
            )


def _stream_at(value: Any, tap: Tap) -> Tensor:
    tensors = floating_tensors(value)
    if tap.position >= len(tensors):
        raise BlocksError(
            f"the {tap.end} of {tap.name} holds {len(tensors)} floating tensors in this batch and held more in the "
            "first; expected the same for every batch."
        )
    return tensors[tap.position]


Result = TypeVar("Result")


def despite_changes_in_place(measure: Callable[[], Result]) -> Result:
    """Measure; where the network overwrites what a backward pass needs, again with copies of all of that.

    A network that is trained without backpropagation may do so, and still has a gradient.
    """
    try:
        return measure()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        return measure()


def sites_and_grads(
    call: Callable[[], Tensor], chain: Chain, error_of: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """(h_l, ∂ℓ/∂h_l, logits, ∂ℓ/∂logits) for a model call, samples along the first axis of each."""
    return despite_changes_in_place(lambda: _sites_and_grads(call, chain, error_of))


def _sites_and_grads(
    call: Callable[[], Tensor], chain: Chain, error_of: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    reader = SiteReader(chain)
    with reader.attached():
        logits = call()
        reader.check_complete()
        error = error_of(logits)
        if not logits.requires_grad:
            raise BlocksError(
                "the loss does not reach the blocks: the logits do not depend on the residual stream. Pass blocks= "
                "with modules that the output is computed from."
            )
        scale = _backward(reader, logits, error)
    samples = logits.shape[0]
    arranged = [samples_first(h, tap, samples) for h, tap in zip(reader.values, chain.taps, strict=True)]
    grads = [samples_first(reader.grads[i], tap, samples) for i, tap in enumerate(chain.taps)]
    if scale is not None:
        grads = [grad.double() / _rows(scale, grad) for grad in grads]
    return arranged, grads, logits.detach(), error


def _backward(reader: SiteReader, logits: Tensor, error: Tensor) -> Tensor | None:
    """Fill the reader's gradients from the error at the logits; returns the scale per sample, if one was used."""
    scale = None
    rows = error.flatten(1).abs().amax(dim=1) if error.ndim > 1 else error.abs()
    if torch.float16 in {logits.dtype, *(value.dtype for value in reader.values)}:
        scale = _backward_in_half(reader, logits, error, _to_about_one(rows))
    elif bool(((rows > 0) & (rows < TINY_ERROR)).any()):
        scale = _to_about_one(rows)
        reader.pull_back(logits, (error * _rows(scale, error)).to(logits.dtype))
    else:
        reader.pull_back(logits, error.to(logits.dtype))
    unreached = [i for i in range(len(reader.values)) if i not in reader.grads]
    if unreached:
        raise BlocksError(
            f"the loss does not reach site '{reader.chain.taps[unreached[0]]}'. Pass blocks= with modules that the "
            "output is computed from."
        )
    return scale


TINY_ERROR = 2.0**-40
"""An error this small leaves too little room above fp32's smallest number for the way back."""

HALF_LARGEST, HALF_SMALLEST, HALF_UPSTREAM = 2.0**13, 2.0**6, 15
"""Where the largest entry of a scaled fp16 gradient should lie, far from both ends of the range, and the largest
exponent that the error at the logits itself can have."""


def _to_about_one(rows: Tensor) -> Tensor:
    """Per sample the power of two that brings its largest error to about 1; 1 where there is none."""
    scale = torch.exp2(-torch.ceil(rows.log2()))
    return torch.where(scale.isfinite() & (scale > 0), scale, torch.ones_like(scale))


def _backward_in_half(reader: SiteReader, logits: Tensor, error: Tensor, base: Tensor) -> Tensor:
    """Pull an fp16 network's error back with each sample scaled by a power of two; returns the scale.

    Gradients of an fp16 network underflow inside the backward pass, so no care afterwards can save them.
    """
    exponent, ceiling = torch.zeros_like(base), torch.full_like(base, HALF_UPSTREAM)
    for _ in range(8):
        scale = base * torch.exp2(exponent)
        reader.pull_back(logits, (error * _rows(scale, error)).to(logits.dtype), keep_graph=True)
        largest = _largest_entries(reader, len(base))
        overflow = ~largest.isfinite()
        ceiling = torch.where(overflow, exponent - 3, ceiling)
        room = torch.log2(HALF_LARGEST / largest).floor()
        better = torch.where(largest < HALF_SMALLEST, exponent + room, exponent).clamp(max=ceiling)
        if torch.equal(better, exponent):
            break
        exponent = better
    return scale


def _largest_entries(reader: SiteReader, samples: int) -> Tensor:
    """The largest entry of each sample's gradient over all sites, (B,)."""
    largest = [
        samples_first(grad, reader.chain.taps[i], samples).flatten(1).abs().amax(dim=1).double()
        for i, grad in reader.grads.items()
    ]
    return torch.stack(largest).amax(dim=0) if largest else torch.ones(samples, dtype=torch.float64)


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
        lambda: _checked(batch.call(model, chain.changes_input), batch),
        chain,
        lambda logits: error_at_logits(loss, logits, batch.targets),
    )
    trace = Trace(batch.inputs, hiddens, logits, batch.targets, error)
    return Capture(trace, grads, reduction, offset)


def _checked(logits: Tensor, batch: Batch) -> Tensor:
    if logits.ndim < 1 or logits.shape[0] != batch.size:
        raise BatchError(
            f"the model gave an output of shape {tuple(logits.shape)} for {batch.size} targets; expected one row of "
            "logits per sample."
        )
    if not logits.is_floating_point():
        raise BatchError(f"the model gave {logits.dtype} outputs; expected floating-point logits.")
    return logits
