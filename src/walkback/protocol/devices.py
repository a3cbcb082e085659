"""Where a network lives: on one device, which has fp64."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from walkback.errors import InputError

NO_DOUBLE = ("mps",)
"""Devices that have no fp64, in which norms and cosines are taken here."""


def autocasting(device: torch.device) -> bool:
    """Whether torch converts to half precision by itself on such a device; some devices cannot be asked."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Compute in the precision of the tensors, whatever was asked for around this."""
    return torch.autocast(device.type, enabled=False) if autocasting(device) else nullcontext()


def require_one_device(model: nn.Module) -> None:
    """Raise for a network that is spread over several devices, or lives where it cannot be measured."""
    # By hand: the iterators of a model walk over its tree many times.
    devices = {p.device for module in model.modules() for p in module._parameters.values() if p is not None}
    if len(devices) > 1:
        raise InputError(
            f"the model is spread over {len(devices)} devices ({_first_of_each(model)}), so its states cannot be put "
            "side by side. Move a copy to one device: copy.deepcopy(model).to('cpu')."
        )
    for device in devices:
        if device.type in NO_DOUBLE:
            raise InputError(
                f"the model is on the device {device}, which has no fp64, and norms and cosines are taken in fp64. "
                "Pass a copy on the CPU: copy.deepcopy(model).to('cpu')."
            )


def _first_of_each(model: nn.Module) -> str:
    first: dict[torch.device, str] = {}
    for name, parameter in model.named_parameters():
        first.setdefault(parameter.device, name)
    return ", ".join(f"{name} on {device}" for device, name in first.items())
