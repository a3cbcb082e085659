"""Reference fidelity: does the working-precision gradient point where the fp64 one does?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from walkback.protocol import numerics
from walkback.protocol.batches import Batch
from walkback.protocol.capture import Capture, Sites, sites_and_grads
from walkback.protocol.losses import Loss, error_at_logits
from walkback.protocol.sites import Chain

FIDELITY_SAMPLES = 32


class Fidelity(NamedTuple):
    """The mean cosine at each site over some samples, or why it could not be measured."""

    cosines: tuple[float, ...] | None
    why_not: str = ""
    samples: int = 0

    def fields(self) -> dict[str, Any]:
        """As fields of `Measurements`."""
        return {"reference_fidelity": self.cosines, "no_fidelity": self.why_not}


def reference_fidelity(model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, seen: Capture) -> Fidelity:
    """The mean cosine with the fp64 gradient at each site, on the first samples of a batch that was captured."""
    return fidelity_of(seen, double_pass(model, chain, batch, loss))


def double_pass(model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None) -> Sites | str:
    """The sites of the first samples in fp64, or why they cannot be had.

    The network runs with fp64 copies of its parameters and buffers in place of its own. For an fp32 network, from
    the first measured site as it is: what comes before takes most of the time and memory there, and one more rounding
    of that site to fp32 bends no gradient. Where parameters of a module that runs on (a class token of the network
    itself) meet what comes before, fp32 and fp64 do not mix, and all of the network is copied.
    """
    if all(parameter.dtype == torch.float64 for parameter in model.parameters()):
        return "the network is in fp64"
    some = batch.first(min(FIDELITY_SAMPLES, batch.size))
    try:
        return _in_double_precision(model, chain, some, loss)
    except Exception as error:  # whatever a model does not support in fp64, the rest is measured all the same
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        return f"no fp64 pass: {reason}"


def fidelity_of(seen: Capture, exact: Sites | str) -> Fidelity:
    """How well the captured gradients of a batch agree with those of its first samples in fp64."""
    if all(h.dtype == torch.float64 for h in seen.hiddens):
        return Fidelity(tuple(1.0 for _ in seen.hiddens), samples=seen.samples)
    if isinstance(exact, str):
        return Fidelity(None, exact)
    rounded = [seen.reduction.vectors(g)[: len(exact.logits)] for g in seen.grads]
    doubled = [seen.reduction.vectors(g) for g in exact.grads]
    if len({vectors.shape for vectors in doubled}) == 1:
        cosines = _agreement(torch.stack(rounded), torch.stack(doubled)).mean(dim=1)
    else:
        cosines = torch.stack([_agreement(r, e).mean() for r, e in zip(rounded, doubled, strict=True)])
    return Fidelity(tuple(cosines.tolist()), samples=len(exact.logits))


def _in_double_precision(model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None) -> Sites:
    device = next((parameter.device.type for parameter in model.parameters()), "cpu")
    in_single = all(p.dtype == torch.float32 for p in model.parameters()) and not torch.is_autocast_enabled(device)
    with torch.autocast(device, enabled=False):
        if in_single and chain.stem:
            try:
                with _in_double(model, but=chain.stem):
                    return _pass(model, chain, batch, loss, begin_in=torch.float64)
            except (RuntimeError, TypeError, ValueError):
                pass  # something else that the stem made meets the stream in fp32: all of it in fp64, then
        with _in_double(model):
            return _pass(model, chain, batch.to_double(), loss)


def _pass(
    model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, begin_in: torch.dtype | None = None
) -> Sites:
    return sites_and_grads(
        lambda: batch.call(model, chain.changes_input),
        chain,
        lambda logits: error_at_logits(loss, logits, batch.targets),
        begin_in,
    )


@contextmanager
def _in_double(model: nn.Module, but: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Put fp64 copies in the place of parameters and buffers, outside some modules.

    For the backward pass too, unlike torch.func.functional_call: activation checkpointing computes again there.
    """
    copies: dict[int, Tensor] = {}
    left_alone = {inner for module in but for inner in module.modules()}
    originals = [
        (store, name, tensor)
        for module in model.modules()
        if module not in left_alone
        for store in (module._parameters, module._buffers)
        for name, tensor in store.items()
        if tensor is not None and tensor.is_floating_point()
    ]
    try:
        for store, name, tensor in originals:
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor.detach().double()
            store[name] = copies[id(tensor)]  # type: ignore[assignment]
        yield
    finally:
        for store, name, tensor in originals:
            store[name] = tensor  # type: ignore[assignment]


def _agreement(rounded: Tensor, exact: Tensor) -> Tensor:
    """The cosine of each sample, (…, B, d) → (…, B); a gradient that is exactly zero in both precisions agrees."""
    cosines = numerics.cosines(rounded, exact)
    if cosines.isnan().any():
        both_zero = (rounded == 0).all(dim=-1) & (exact == 0).all(dim=-1)
        # One that is zero in working precision alone has lost its direction altogether.
        cosines = torch.where(both_zero, 1.0, cosines.nan_to_num(nan=0.0))
    return cosines
