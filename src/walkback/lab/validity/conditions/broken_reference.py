"""A network whose own backward pass is not its gradient, so that all that is compared with it means nothing."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.exploding_block import Grown
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.networks import network_of
from walkback.lab.zoo.contract import Block, BlockModel, DataSpec

OWN_BACKWARD, HALF, CLAMPED = 1.0, 2.0, 3.0
CLAMP = 1e-4
SMALL, LARGE = 1e-3, 8000.0
"""By how much the first block of a network that is handed in in fp16 is larger: what is behind it is normed, so the
gradient there is smaller by as much, and lost."""


class _Signs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, signs: Tensor) -> Tensor:
        ctx.save_for_backward(signs)
        return hidden.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.saved_tensors[0], None


class _Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, signs: Tensor) -> Tensor:
        return hidden.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.clamp(-CLAMP, CLAMP), None


class Bent(Block):
    """A block that reads its input through a function whose backward pass is not its derivative."""

    signs: Tensor

    def __init__(self, inner: Block, shape: tuple[int, ...], function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.inner, self.function = inner, function
        self.register_buffer("signs", torch.randint(2, shape) * 2.0 - 1.0)

    def branch(self, hidden: Tensor) -> Tensor:
        """The inner block's, read through the function."""
        return self.inner.branch(self.function.apply(hidden, self.signs))  # type: ignore[no-untyped-call]

    def join(self, hidden: Tensor, branch: Tensor) -> Tensor:
        """The inner block's; the skip is bent too."""
        bent: Tensor = self.function.apply(hidden, self.signs)  # type: ignore[no-untyped-call]
        return self.inner.join(bent, branch)


class HalfStem(nn.Module):
    """The stem in fp16."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        """h_0 in fp16."""
        return self.inner(inputs.half())  # type: ignore[no-any-return]


@torch.no_grad()
def in_half(model: BlockModel) -> BlockModel:
    """A copy that computes in fp16 throughout, where what lies below 6e-8 is zero, with logits of a thousandth.

    Smaller logits change no answer, and make every gradient smaller.
    """
    half = copy.deepcopy(model)
    readout = [module for module in half.head.modules() if isinstance(module, nn.Linear)][-1]
    for parameter in readout.parameters():
        parameter.mul_(SMALL)
    half.half()
    return BlockModel(HalfStem(half.stem), list(half.blocks), half.head, half.data).eval()


class BrokenReference(Condition):
    """The gradient that alignment is measured against is not the network's."""

    name = "broken_reference"
    family = "reference"
    title = "The backward pass is not the gradient: one of its own, clamped, or lost in fp16."
    made = (
        "Every block reads its input through an autograd Function whose backward pass turns signs (1) or clamps (3); "
        "or the stream is large, and the trained network is handed in in fp16 with small logits, where its gradient "
        "underflows (2). BP "
        "through that backward pass trains it."
    )
    dial_is = "1 signs turned in a custom backward, 2 fp16, 3 gradient clamped at 1e-4"
    dials = (OWN_BACKWARD, HALF, CLAMPED)
    found_by = ("reference_check", "gradient_floor")
    architectures = ("resmlp", "plain_mlp", "text_transformer", "vit_mini")  # normed right behind the stem
    tasks = ("product", "pairs", "fashion", "text")

    def network(self, config: NetworkConfig, data: DataSpec) -> BlockModel:
        """Its blocks are bent, but for fp16."""
        model = network_of(config, data)
        if config.dial == HALF:
            first, *others = model.blocks
            large = Grown(first)
            large.factor.fill_(LARGE)
            return BlockModel(model.stem, [large, *others], model.head, data)
        function = _Signs if config.dial == OWN_BACKWARD else _Clamp
        blocks = [Bent(block, shape, function) for block, shape in zip(model.blocks, model.site_shapes, strict=False)]
        return BlockModel(model.stem, blocks, model.head, data)

    def as_measured(self, made: Made) -> BlockModel:
        """In fp16 where the dial says so."""
        return in_half(made.run.model) if made.run.config.dial == HALF else made.run.model

    def check(self, made: Made) -> Evidence:
        """Autograd's gradient at h_0 beside central differences of the loss in fp64, along random directions."""
        error = gradient_error(self.as_measured(made), made)
        words = f"autograd's slopes of the loss at h_0 are off by {error:.2g} of their size"
        return Evidence(error > 0.04, {"error": error}, words)


def gradient_error(model: BlockModel, made: Made, directions: int = 16) -> float:
    """‖slopes by autograd − slopes by differences‖ / ‖slopes by differences‖ at h_0, over random directions."""
    inputs, labels = made.run.task.test_inputs[:64], made.run.task.test_labels[:64]
    hidden = model.stem(inputs).detach().requires_grad_()
    loss = nn.functional.cross_entropy(_behind(model, hidden).float(), labels)
    slope = torch.autograd.grad(loss, hidden)[0].double()
    exact, place = copy.deepcopy(model).double(), hidden.detach().double()
    step = 1e-4 * float(place.pow(2).mean().sqrt())
    generator = torch.Generator().manual_seed(0)
    found, wanted = [], []
    with torch.no_grad():
        for _ in range(directions):
            along = torch.randn(place.shape, generator=generator, dtype=torch.float64)
            ends = [nn.functional.cross_entropy(_behind(exact, place + s * along), labels) for s in (step, -step)]
            wanted.append((ends[0] - ends[1]) / (2 * step))
            found.append((slope * along).sum())
    return float((torch.stack(found) - torch.stack(wanted)).norm() / torch.stack(wanted).norm())


def _behind(model: BlockModel, hidden: Tensor) -> Tensor:
    for block in model.blocks:
        hidden = block(hidden)
    return model.head(hidden)  # type: ignore[no-any-return]


CONDITION = BrokenReference()
