"""Small networks and batches that the zoo's tests share."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.registry import ARCHITECTURES, METHODS
from walkback.lab.zoo import BlockModel, DataSpec, build_model
from walkback.protocol.credit import Trace

DATA = DataSpec((1, 8, 8), classes=5)
TEXT = DataSpec((6,), classes=7, vocabulary=7, target_shape=(6,))
DATA_OF = {"gpt": TEXT}
"""What an architecture is built for that does not read images."""
LAST_MADE = [DATA]
"""The data of the network that `small` made last: what `batch` is a batch of."""

SMALL: dict[str, dict[str, Any]] = {
    "resmlp": {"width": 12, "depth": 3},
    "vit_mini": {"width": 12, "depth": 2, "heads": 2},
    "small_cnn": {"channels": (3, 4, 5), "fc_width": 7},
    "student_net": {"width": 12, "depth": 3},
    "small_resnet": {"channels": 4, "depth": 3},
    "mlp": {"widths": (12, 9, 9), "activation": "tanh"},
    "lenet": {"channels": (2, 3, 4), "fc_width": 5},
    "resnet": {"channels": 2, "blocks_per_stage": 1},
    "gpt": {"width": 12, "depth": 2, "heads": 2, "expansion": 2},
}


def small(architecture: str, *, seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> BlockModel:
    """A small network with all its weights moved off their special initial values."""
    torch.manual_seed(seed)
    LAST_MADE[:] = [DATA_OF.get(architecture, DATA)]
    model = build_model(architecture, LAST_MADE[0], **SMALL.get(architecture, {}) | options).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def batch(count: int = 9, *, seed: int = 1, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Inputs and targets for the network that `small` made last; images, where it made none in this test."""
    generator, data = torch.Generator().manual_seed(seed), LAST_MADE[0]
    shape, targets = (count, *data.input_shape), (count, *data.target_shape)
    if data.vocabulary is None:
        inputs = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    else:
        inputs = torch.randint(data.vocabulary, shape, generator=generator)
    return inputs, torch.randint(data.classes, targets, generator=generator)


def losses_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Twin: each sample's own loss, one answer after the other, (B,)."""
    every = []
    for scores, wanted in zip(logits, targets, strict=True):
        rows = scores.view(-1, scores.shape[-1])
        each = [row.logsumexp(0) - row[int(y)] for row, y in zip(rows, wanted.view(-1), strict=True)]
        every.append(torch.stack(each).mean())
    return torch.stack(every)


def sites_of(model: BlockModel, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
    """h_0 … h_L and the logits, on one graph; it begins at h_0 where the stem has nothing to learn."""
    sites = [model.stem(inputs)]
    if torch.is_grad_enabled() and not sites[0].requires_grad:
        sites[0] = sites[0].detach().requires_grad_()
    for block in model.blocks:
        sites.append(block(sites[-1]))
    return sites, model.head(sites[-1])


def trace_of(model: BlockModel, inputs: Tensor, targets: Tensor) -> Trace:
    """What `diagnose` shows a method: a forward pass in eval mode, the error in fp64."""
    frozen = copy.deepcopy(model).eval()
    with torch.no_grad():
        sites, logits = sites_of(frozen, inputs)
    error = logits.double().softmax(dim=-1) - F.one_hot(targets, logits.shape[-1])
    error = error / model.data.answers
    return Trace(inputs, sites, logits, targets, error)


def true_gradients(model: BlockModel, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Each sample's own ∂ℓ/∂h_l, in the model's mode, by one pass of autograd through a copy."""
    sites, logits = sites_of(copy.deepcopy(model), inputs)
    return list(torch.autograd.grad(losses_of(logits, targets).sum(), sites))


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all answers, by torch's own function and in its order of sums."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def backprop_gradients(model: BlockModel, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The gradients that plain `loss.backward()` leaves, on a copy."""
    twin = copy.deepcopy(model)
    twin.zero_grad()
    loss_of(twin(inputs), targets).backward()
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


WHY_NOT = {
    (name, architecture): METHODS.load(name).why_not(model)
    for architecture, model in {architecture: small(architecture) for architecture in ARCHITECTURES}.items()
    for name in METHODS
}
PAIRS = [pair for pair, why_not in WHY_NOT.items() if not why_not]
"""Every method with every architecture that it is defined on."""
UNDEFINED = [pair for pair, why_not in WHY_NOT.items() if why_not]
WITH_CREDIT = [(name, architecture) for name, architecture in PAIRS if METHODS.load(name).has_credit]


def named_learning(model: BlockModel, method: Any) -> set[str]:
    """By hand: what learns of a network none of whose blocks is frozen."""
    unread = () if method.answers_by_head() else ("head.",)
    return {name for name, _ in model.named_parameters() if not name.startswith(unread)}
