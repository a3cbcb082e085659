"""Γ by token: how far the credit of each position of a text points along the true gradient there.

Γ of a report takes all tokens of a sample as one vector, so positions with large gradients carry it. Here every
position counts by itself: cos(a_l, g_l) over the d values of one token, and its mean over samples.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from walkback.errors import PitfallError, WalkbackError
from walkback.lab.runs.assembly import Assembly
from walkback.lab.runs.functional_tests import SAMPLES, traces_of
from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.answers import summed_loss
from walkback.lab.zoo.datasets import Batch
from walkback.protocol import numerics
from walkback.protocol.credit import credits_for
from walkback.protocol.untouched import untouched


def gamma_by_token(run: Assembly, batches: Sequence[Batch]) -> dict[str, Any] | None:
    """The mean cosine of each position at every site h_0 … h_L, or why there is none; None where samples have no
    answer for each token."""
    if not run.model.data.target_shape:
        return None
    if not run.method.answers_by_head():
        return {"unmeasured": "the method does not answer by the head, so there is no gradient to compare with"}
    try:
        with untouched(run.model):
            return _measured(run, batches)
    except PitfallError:
        raise  # somebody asked for it, with walkback.strict()
    except WalkbackError as error:
        return {"unmeasured": str(error)}


def _measured(run: Assembly, batches: Sequence[Batch]) -> dict[str, Any]:
    twin = copy.deepcopy(run.model).double()
    parts = []
    for trace in traces_of(run, batches):
        credits, grads = credits_for(run.method, trace), site_gradients(twin, trace.inputs, trace.targets)
        parts.append(torch.stack([numerics.cosines(a.double(), g) for a, g in zip(credits, grads, strict=True)]))
    cosines = torch.cat(parts, dim=1)[:, :SAMPLES]  # (sites, samples, positions)
    means = cosines.nanmean(dim=1)
    return {
        "unmeasured": "",
        "samples": cosines.shape[1],
        "sites": [[_or_none(value) for value in row] for row in means.tolist()],
        "site_means": [_or_none(value) for value in cosines.flatten(1).nanmean(dim=1).tolist()],
    }


def site_gradients(model: BlockModel, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """∂ℓ/∂h_l of each sample's own loss at every site."""
    with torch.enable_grad():
        hidden = model.stem(inputs).detach().requires_grad_()
        sites = [hidden]
        for block in model.blocks:
            sites.append(block(sites[-1]))
        return list(torch.autograd.grad(summed_loss(model.head(sites[-1]), targets, model.output), sites))


def _or_none(value: float) -> float | None:
    return value if value == value else None  # NaN where no sample has a direction
