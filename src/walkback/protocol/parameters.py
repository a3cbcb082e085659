"""A network's parameters by name: what it is known by, and which of them lie in its blocks."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.nn.parameter import is_lazy

from walkback.errors import InputError
from walkback.protocol.block_names import plain_modules
from walkback.protocol.network_shapes import Shapes
from walkback.protocol.network_shapes import difference as difference
from walkback.protocol.network_shapes import fingerprint as fingerprint


def parameters_of(model: nn.Module) -> dict[str, nn.Parameter]:
    """Every parameter once, by its dotted name; wrappers of torch.compile leave no trace in it."""
    named = {
        ".".join(part for part in name.split(".") if part != "_orig_mod"): parameter
        for name, parameter in model.named_parameters()
    }
    lazy = next((name for name, parameter in named.items() if is_lazy(parameter)), None)
    if lazy is not None:
        raise InputError(
            f"{lazy} has no shape yet: a lazy module takes it from its first forward pass. Run one where the model is "
            "built."
        )
    return named


def shapes_of(model: nn.Module) -> Shapes:
    """The shape of every parameter, by its name: what a network is, whatever its weights are."""
    return {name: tuple(parameter.shape) for name, parameter in parameters_of(model).items()}


def parameters_in(model: nn.Module, blocks: Iterable[str]) -> dict[str, nn.Parameter]:
    """The parameters of the modules with these dotted names, each once, by its name in the whole model."""
    modules = plain_modules(model)
    inside = {parameter for block in blocks for parameter in modules[block].parameters()}
    return {name: parameter for name, parameter in parameters_of(model).items() if parameter in inside}
