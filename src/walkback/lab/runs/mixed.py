"""A step in less than fp32: bf16 or fp16 in its passes, fp32 in weights, gradients and optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import torch
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.registry import METHODS
from walkback.lab.runs.config import RunConfig
from walkback.lab.zoo import Method, StepResult
from walkback.lab.zoo.precision import scaled_by

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
FIRST_SCALE = 2.0**13
"""Of gradients in fp16, doubled after 2,000 steps without an overflow and halved at each, as torch's scaler does."""


class Mixed:
    """How a run of less than fp32 takes its steps."""

    def __init__(self, precision: str, device: torch.device) -> None:
        self.type, self.device = TYPES[precision], device
        needs_scale = precision == "fp16"
        self.scaler = torch.amp.GradScaler(device.type, init_scale=FIRST_SCALE) if needs_scale else None

    def accumulate(self, method: Method, inputs: Tensor, targets: Tensor) -> StepResult:
        """The method's own, its passes in half precision where autocast says so."""
        with ExitStack() as stack:
            stack.enter_context(torch.autocast(self.device.type, self.type))
            if self.scaler is not None:
                one = torch.ones((), device=self.device)
                stack.enter_context(scaled_by(self.scaler.scale(one)))
            return method.accumulate(inputs, targets)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step on gradients of their true size; left out where fp16 overflowed."""
        if self.scaler is None:
            optimizer.step()
            return
        self.scaler.unscale_(optimizer)
        self.scaler.step(optimizer)
        self.scaler.update()

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: in fp16 the scale, and how many steps it has lasted."""
        if self.scaler is None:
            return {}
        state = self.scaler.state_dict()
        return {name: torch.tensor(float(state[name]), dtype=torch.float64) for name in KEPT}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with the scale of a checkpoint."""
        if self.scaler is not None:
            scale, lasted = (float(tensors[name]) for name in KEPT)
            self.scaler.load_state_dict(self.scaler.state_dict() | {"scale": scale, "_growth_tracker": int(lasted)})


KEPT = ("scale", "_growth_tracker")


def refuse_precision(config: RunConfig, device: torch.device) -> None:
    """Raise where a run cannot be trained in its precision, on this device or by this method."""
    if config.precision == "fp32":
        return
    method = METHODS.load(config.method)
    if method.fp32_only:
        raise InputError(
            f"method {config.method} is trained in fp32 alone: {method.fp32_only}. precision is {config.precision!r}; "
            "use 'fp32'."
        )
    if config.precision == "fp16":
        _refuse_fp16(config.method, method, device)


def _refuse_fp16(name: str, method: type[Method], device: torch.device) -> None:
    if device.type != "cuda":
        raise InputError(
            f"precision is 'fp16' on the device {device}; expected a CUDA device. Use 'bf16' or 'fp32' here."
        )
    if not getattr(method.accumulate, "scales_gradients", False):
        raise InputError(
            f"method {name} does not say that it scales what it adds to .grad, and in fp16 small gradients are lost "
            "without that. Use precision 'bf16'; if you wrote the method, see walkback.lab.zoo.precision."
        )


def mixed_for(precision: str, device: torch.device) -> Mixed | None:
    """How steps of this precision are taken; None in fp32."""
    return None if precision == "fp32" else Mixed(precision, device)
