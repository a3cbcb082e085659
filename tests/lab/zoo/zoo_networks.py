"""Small networks and batches that the zoo's tests share."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.zoo import BlockModel, DataSpec, build_model
from walkback.protocol.credit import Trace

DATA = DataSpec((1, 8, 8), classes=5)

SMALL: dict[str, dict[str, Any]] = {
    "resmlp": {"width": 12, "depth": 3},
    "vit_mini": {"width": 12, "depth": 2, "heads": 2},
    "small_cnn": {"channels": (3, 4, 5), "fc_width": 7},
    "student_net": {"width": 12, "depth": 3},
    "small_resnet": {"channels": 4, "depth": 3},
}


def small(architecture: str, *, seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> BlockModel:
    """A small network with all its weights moved off their special initial values."""
    torch.manual_seed(seed)
    model = build_model(architecture, DATA, **SMALL.get(architecture, {}) | options).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def batch(count: int = 9, *, seed: int = 1, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, *DATA.input_shape, generator=generator, dtype=torch.float64)
    return inputs.to(dtype), torch.randint(DATA.classes, (count,), generator=generator)


def sites_of(model: BlockModel, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
    """h_0 … h_L and the logits, on one graph."""
    sites = [model.stem(inputs)]
    for block in model.blocks:
        sites.append(block(sites[-1]))
    return sites, model.head(sites[-1])


def trace_of(model: BlockModel, inputs: Tensor, targets: Tensor) -> Trace:
    """What `diagnose` shows a method: a forward pass in eval mode, the error in fp64."""
    frozen = copy.deepcopy(model).eval()
    with torch.no_grad():
        sites, logits = sites_of(frozen, inputs)
    error = logits.double().softmax(dim=1) - F.one_hot(targets, DATA.classes)
    return Trace(inputs, sites, logits, targets, error)


def true_gradients(model: BlockModel, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Each sample's own ∂ℓ/∂h_l, in the model's mode, by one pass of autograd through a copy."""
    sites, logits = sites_of(copy.deepcopy(model), inputs)
    return list(torch.autograd.grad(F.cross_entropy(logits, targets, reduction="sum"), sites))


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def backprop_gradients(model: BlockModel, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The gradients that plain `loss.backward()` leaves, on a copy."""
    twin = copy.deepcopy(model)
    twin.zero_grad()
    F.cross_entropy(twin(inputs), targets).backward()
    return gradients(twin)


def assert_same(got: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    """Equal names, and values within the tolerance both absolutely and relative to the largest entry."""
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        difference = (got[name] - value).abs().max()
        assert difference <= tolerance, name
        # A bias in front of a BatchNorm has no gradient: both sides hold nothing but rounding.
        if value.abs().max() > 1e-12:
            assert difference <= tolerance * value.abs().max(), name


def feedback_from_weights(method: Any, model: BlockModel) -> None:
    """FA's feedback made equal to the weights, so that it is backpropagation."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            method.feedback(name).copy_(module.weight.detach())
