"""One batch → h_l and g_l at every site, by one forward and one backward pass, activations only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, NoGradient
from walkback.protocol import numerics
from walkback.protocol.batches import Batch
from walkback.protocol.credit import Trace
from walkback.protocol.losses import Loss, count_correct, error_at_logits
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.site_reader import SiteReader, despite_changes_in_place
from walkback.protocol.sites import Chain, samples_first
from walkback.protocol.sizes import REFERENCE_BATCH as REFERENCE_BATCH


@dataclass(frozen=True)
class Capture:
    """What one batch shows. Gradients are of each sample's own loss, not divided by any batch size."""

    trace: Trace
    grads: Sequence[Tensor]
    """∂ℓ(x)/∂h_l(x) at each site, shaped like the site; none where no gradient is measured."""
    reduction: TokenReduction
    offset: int = 0
    """How many samples came in earlier batches."""
    middle: int | None = None
    """The place of the network's middle site; None where it was left out."""

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
        return self._norms(self.hiddens, [self.reduction.vectors(h) for h in self.hiddens])

    @cached_property
    def grad_norms(self) -> Tensor:
        """‖∂ℓ(x)/∂h_l(x)‖, (sites, B)."""
        return self._norms(self.grads, self.grad_vectors)

    def _norms(self, sites: Sequence[Tensor], vectors: Sequence[Tensor]) -> Tensor:
        if self.reduction is TokenReduction.TOKEN_NORMS:
            return torch.stack([self.reduction.norms(site) for site in sites])
        return numerics.norms_of_each(vectors)

    @cached_property
    def direction_norms(self) -> Tensor:
        """The norms of `grad_vectors`, (sites, B)."""
        if self.reduction is not TokenReduction.TOKEN_NORMS:
            return self.grad_norms
        return numerics.norms_of_each(self.grad_vectors)

    @cached_property
    def broken_hiddens(self) -> Tensor:
        """Samples with a NaN or Inf in h_l, (sites, B)."""
        return _broken(self.hiddens, self.hidden_norms)

    @cached_property
    def broken_grads(self) -> Tensor:
        """Samples with a NaN or Inf in ∂ℓ/∂h_l, (sites, B)."""
        return _broken(self.grads, self.grad_norms)

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


def _broken(sites: Sequence[Tensor], norms: Tensor) -> Tensor:
    # The norm of a site shows every NaN and Inf in it, unless only one token was looked at.
    if any(site.ndim == 3 for site in sites):
        return torch.stack([_broken_samples(site) for site in sites])
    return ~norms.isfinite()


def _broken_samples(site: Tensor) -> Tensor:
    """Samples with a NaN or Inf anywhere, (B,)."""
    # Each of them makes the sum NaN or Inf, and a sum takes a tenth of the time. Large finite values may too.
    if site.sum().isfinite():
        return torch.zeros(len(site), dtype=torch.bool, device=site.device)
    return ~site.flatten(1).isfinite().all(dim=1)


class Sites(NamedTuple):
    """What one pass shows, samples along the first axis of each tensor."""

    hiddens: list[Tensor]
    grads: list[Tensor]
    logits: Tensor
    error: Tensor
    """∂ℓ/∂logits."""
    stream_kept: bool
    """Nothing wrote to a site once it was read."""


def sites_and_grads(
    call: Callable[[], Tensor],
    chain: Chain,
    error_of: Callable[[Tensor], Tensor],
    begin_in: torch.dtype | None = None,
) -> Sites:
    """h_l and ∂ℓ/∂h_l for a model call; the stream is converted to `begin_in` at the first site, if given."""
    sites = despite_changes_in_place(lambda: _sites_and_grads(call, SiteReader(chain, begin_in), error_of))
    if chain.keeps_stream and not sites.stream_kept:
        return sites_and_grads(call, replace(chain, keeps_stream=False), error_of, begin_in)
    return sites


def _sites_and_grads(call: Callable[[], Tensor], reader: SiteReader, error_of: Callable[[Tensor], Tensor]) -> Sites:
    chain = reader.chain
    with reader.attached():
        logits = call()
        reader.check_complete()
        stream_kept = reader.was_kept()
        error = error_of(logits)
        if not logits.requires_grad:
            raise NoGradient(
                "the loss does not reach the blocks: the logits do not depend on the residual stream. Pass blocks= "
                "with modules that the output is computed from.",
                site=len(chain.taps) - 1,
            )
        scale = _backward(reader, logits, error)
    samples = logits.shape[0]
    arranged = [samples_first(h, tap, samples) for h, tap in zip(reader.values, chain.taps, strict=True)]
    grads = [samples_first(reader.grads[i], tap, samples) for i, tap in enumerate(chain.taps)]
    if scale is not None:
        grads = [grad.double() / _rows(scale, grad) for grad in grads]
    return Sites(arranged, grads, logits.detach(), error, stream_kept)


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
        raise NoGradient(
            f"the loss does not reach site '{reader.chain.taps[unreached[0]]}'. Pass blocks= with modules that the "
            "output is computed from.",
            site=unreached[-1],
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
    sites = sites_and_grads(
        lambda: _checked(batch.call(model, chain.changes_input), batch),
        chain,
        lambda logits: error_at_logits(loss, logits, batch.targets),
    )
    trace = Trace(batch.inputs, sites.hiddens, sites.logits, batch.targets, sites.error)
    return Capture(trace, sites.grads, reduction, offset, chain.middle)


@torch.no_grad()
def capture_stream(
    model: nn.Module,
    chain: Chain,
    batch: Batch,
    loss: Loss | None,
    reduction: TokenReduction,
    offset: int = 0,
) -> Capture:
    """Measure one batch without any gradient: h_l and the logits alone."""
    reader = SiteReader(chain, gradients=False)
    with reader.attached():
        logits = _checked(batch.call(model, chain.changes_input), batch)
        reader.check_complete()
    if chain.keeps_stream and not reader.was_kept():
        return capture_stream(model, replace(chain, keeps_stream=False), batch, loss, reduction, offset)
    hiddens = [samples_first(h, tap, len(logits)) for h, tap in zip(reader.values, chain.taps, strict=True)]
    error = torch.full_like(logits, torch.nan, dtype=torch.float64)
    if loss is None and count_correct(logits, batch.targets) is not None:
        error = error_at_logits(None, logits, batch.targets)
    trace = Trace(batch.inputs, hiddens, logits, batch.targets, error)
    return Capture(trace, (), reduction, offset, chain.middle)


def _unflattened(logits: Tensor, batch: Batch) -> str:
    """What to do about the logits of all tokens in one column of rows."""
    targets = batch.targets
    if logits.ndim != 2 or targets.ndim != 2 or len(logits) != targets.numel():
        return ""
    return f" For logits at each token: logits=lambda output: output.view(-1, {targets.shape[1]}, {logits.shape[1]})."


def _checked(logits: Tensor, batch: Batch) -> Tensor:
    if logits.ndim < 1 or logits.shape[0] != batch.size:
        raise BatchError(
            f"the model gave an output of shape {tuple(logits.shape)} for {batch.size} targets; expected one row of "
            f"logits per sample.{_unflattened(logits, batch)}"
        )
    if not logits.is_floating_point():
        raise BatchError(f"the model gave {logits.dtype} outputs; expected floating-point logits.")
    return logits
