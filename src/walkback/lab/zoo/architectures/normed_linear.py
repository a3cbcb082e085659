"""A Linear that reads a LayerNorm, with the backward pass that a local step can do without."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import has_torch_function

from walkback.lab.zoo.plain_module import is_plain


def normed_linear(norm: nn.LayerNorm, linear: nn.Linear, hidden: Tensor) -> Tensor:
    """linear(norm(h)) = (W·γ) x̂ + (b + Wβ), where x̂ is h normalised.

    Computed as on the left where h carries gradient. Where it does not, as it reads a detached state, the gain
    γ and the bias β are folded into the weight: their gradients follow from that of the folded weight, and no
    gradient at the norm's output, a matrix product of the size of the forward one, has to be computed. Not so where
    a method has replaced the functions (FA's error goes back through another weight), or where a layer has hooks
    or lacks what is folded.
    """
    plain = is_plain(norm, nn.LayerNorm) and is_plain(linear, nn.Linear) and not has_torch_function((hidden,))
    if hidden.requires_grad or not torch.is_grad_enabled() or not plain or not _has_all(norm, linear):
        return linear(norm(hidden))  # type: ignore[no-any-return]
    normalised = F.layer_norm(hidden, norm.normalized_shape, eps=norm.eps)
    return F.linear(normalised, linear.weight * norm.weight, torch.addmv(linear.bias, linear.weight, norm.bias))


def _has_all(norm: nn.LayerNorm, linear: nn.Linear) -> bool:
    return len(norm.normalized_shape) == 1 and norm.bias is not None and linear.bias is not None
