"""Refuse a model whose samples influence each other: its per-sample figures would mean nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm

from walkback.errors import InputError
from walkback.protocol.batches import Batch
from walkback.protocol.site_reader import SiteReader, despite_changes_in_place
from walkback.protocol.sites import Chain, samples_first

REMEDY = "Give it running statistics, or measure one sample at a time."


def check_independent(model: nn.Module, chain: Chain, batch: Batch) -> None:
    """Raise if one sample's logits depend on another sample, by the modules or by the gradient."""
    for name, module in model.named_modules():
        if isinstance(module, _NormBase) and not isinstance(module, _InstanceNorm) and module.running_mean is None:
            raise InputError(
                f"{name or 'the model'} is a {type(module).__name__} without running statistics: in eval mode each "
                "sample's output depends on the others in its batch, so per-sample gradients mean nothing. "
                f"{REMEDY}"
            )
    if batch.size > 1:
        leak = despite_changes_in_place(lambda: _leak_between_samples(model, chain, batch))
        if leak is not None:
            raise InputError(
                f"the logits of one sample depend on '{chain.taps[0]}' of another (gradient {leak:.1e}, expected 0), "
                "so per-sample gradients mean nothing. Is the batch on the axis that the model expects (batch_first)?"
            )


def _leak_between_samples(model: nn.Module, chain: Chain, batch: Batch) -> float | None:
    """The largest gradient that the last sample's logits send to another sample's h_0, if any.

    The last, because under a causal mask over the wrong axis the first depends on itself alone.
    """
    reader = SiteReader(chain)
    with reader.attached():
        logits = batch.call(model, chain.changes_input)
        if not reader.values or not logits.requires_grad or logits.shape[:1] != (batch.size,):
            return None  # the measuring pass says what is wrong, in its own words
        pick = torch.zeros_like(logits)
        pick[-1] = 1
        reader.pull_back(logits, pick)
    if 0 not in reader.grads:
        return None
    others: Tensor = samples_first(reader.grads[0], chain.taps[0], batch.size)[:-1]
    largest = float(torch.nan_to_num(others.float()).abs().max())
    return largest if largest > 0 else None
