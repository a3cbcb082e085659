"""Linear and convolution that compute with W and send the error back through another array of its shape.

The model is not touched: while `FeedbackInPlace` is in force, the two functions are replaced for the weights
that it names, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.protocol.modes import FunctionMode


class _Linear(torch.autograd.Function):
    """y = x Wᵀ + b, with ∂x = ∂y B; ∂W and ∂b are the true ones."""

    @staticmethod
    def forward(ctx: Any, feedback: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(feedback, inputs)
        return F.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        feedback, inputs = ctx.saved_tensors
        _, to_inputs, to_weight, to_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            None,
            grad @ feedback if to_inputs else None,
            rows.T @ inputs.flatten(0, -2) if to_weight else None,
            rows.sum(dim=0) if to_bias else None,
        )


class _Conv2d(torch.autograd.Function):
    """y = x ∗ W + b, with ∂x carried back by the kernel B; ∂W and ∂b are the true ones."""

    @staticmethod
    def forward(
        ctx: Any, feedback: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor | None, *geometry: Any
    ) -> Tensor:
        ctx.save_for_backward(feedback, inputs)
        ctx.geometry = geometry
        return F.conv2d(inputs, weight, bias, *geometry)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        feedback, inputs = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.geometry
        wanted = list(ctx.needs_input_grad[1:4])
        # Only the inputs' gradient depends on the kernel, so one call with B gives all three; in the type of the
        # pass, which under autocast is not that of what was given to it.
        inputs, feedback = inputs.to(grad.dtype), feedback.to(grad.dtype)
        grads = torch.ops.aten.convolution_backward(
            grad, inputs, feedback, [len(feedback)], stride, padding, dilation, False, [0, 0], groups, wanted
        )
        return (None, *grads, None, None, None, None)


def feedback_linear(feedback: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear(inputs, weight, bias)` whose error goes back through `feedback`, shaped like the weight."""
    return _Linear.apply(feedback, inputs, weight, bias)  # type: ignore[no-any-return, no-untyped-call]


def feedback_conv2d(
    feedback: Tensor,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Tensor:
    """`F.conv2d` of the same arguments whose error goes back through `feedback`, shaped like the weight."""
    arguments = (feedback, inputs, weight, bias, stride, padding, dilation, groups)
    return _Conv2d.apply(*arguments)  # type: ignore[no-any-return, no-untyped-call]


REPLACED: Mapping[Any, Callable[..., Tensor]] = {F.linear: feedback_linear, F.conv2d: feedback_conv2d}


class FeedbackInPlace(FunctionMode):
    """While in force, `F.linear` and `F.conv2d` of these weights send the error through their feedback."""

    def __init__(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.feedback_of = {id(weight): feedback for weight, feedback in pairs}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace the two functions, pass every other one on."""
        keywords = kwargs or {}
        replacement = REPLACED.get(func)
        feedback = self.feedback_of.get(id(args[1])) if replacement and len(args) > 1 else None
        if replacement is None or feedback is None:
            return func(*args, **keywords)
        return replacement(feedback, *args, **keywords)
