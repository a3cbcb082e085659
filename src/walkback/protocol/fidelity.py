"""Reference fidelity: does the working-precision gradient point where the fp64 one does?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from walkback.errors import WalkbackError
from walkback.protocol import numerics
from walkback.protocol.batches import Batch
from walkback.protocol.capture import Capture, sites_and_grads
from walkback.protocol.losses import Loss, error_at_logits
from walkback.protocol.sites import Chain

FIDELITY_SAMPLES = 32


def reference_fidelity(
    model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, seen: Capture
) -> tuple[tuple[float, ...] | None, str]:
    """(mean cosine per site with the fp64 gradient, "") or (None, why it could not be measured).

    The network runs again in fp64 on the first samples of a batch that was captured, with fp64 copies
    of its parameters and buffers in place of its own.
    """
    if all(h.dtype == torch.float64 for h in seen.hiddens):
        return tuple(1.0 for _ in seen.hiddens), ""
    count = min(FIDELITY_SAMPLES, batch.size)
    try:
        exact = _double_grads(model, chain, batch.first(count).to_double(), loss)
    except (RuntimeError, TypeError, ValueError, MemoryError, WalkbackError) as error:
        return None, f"no fp64 pass: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}"
    rounded = [seen.reduction.vectors(g)[:count] for g in seen.grads]
    return tuple(_mean_cosine(r, seen.reduction.vectors(e)) for r, e in zip(rounded, exact, strict=True)), ""


def _double_grads(model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None) -> list[Tensor]:
    state = {
        name: tensor.double() if tensor.is_floating_point() else tensor
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    }

    def call() -> Tensor:
        def swapped(*args: object, **kwargs: object) -> object:
            return torch.func.functional_call(model, state, args, kwargs)

        return batch.call(swapped)

    device = next(iter(state.values())).device.type if state else "cpu"
    with torch.autocast(device, enabled=False):
        _, grads, _, _ = sites_and_grads(call, chain, lambda logits: error_at_logits(loss, logits, batch.targets))
    return grads


def _mean_cosine(rounded: Tensor, exact: Tensor) -> float:
    """Mean over samples; a gradient that is exactly zero in both precisions agrees."""
    cosines = numerics.cosines(rounded, exact)
    undefined = cosines.isnan()
    if undefined.any():
        both_zero = (rounded == 0).all(dim=1) & (exact == 0).all(dim=1)
        # One that is zero in working precision alone has lost its direction altogether.
        cosines = torch.where(both_zero, 1.0, cosines.nan_to_num(nan=0.0))
    return float(cosines.mean())
