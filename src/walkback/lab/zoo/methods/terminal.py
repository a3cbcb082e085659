"""What the head alone determines: the gradient of each sample's own loss at the last site."""

from __future__ import annotations

import torch
from torch import Tensor

from walkback.lab.zoo.contract import BlockModel
from walkback.protocol.credit import Trace


def terminal_gradient(model: BlockModel, trace: Trace) -> Tensor:
    """∂ℓ/∂h_L of each sample's own loss, shaped like the last site."""
    with torch.enable_grad():
        last = trace.hiddens[-1].detach().requires_grad_()
        logits = model.head(last)
    return torch.autograd.grad(logits, last, trace.error.to(logits.dtype))[0]
