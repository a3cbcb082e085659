"""A network's parameters by name: what it is known by, and which of them lie in its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import nn
from torch.nn.parameter import is_lazy

from walkback.errors import InputError
from walkback.protocol.block_names import plain_modules
from walkback.protocol.schema import content_digest

Shapes = dict[str, tuple[int, ...]]


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


def fingerprint(shapes: Mapping[str, Iterable[int]]) -> str:
    """A short hash of names and shapes, whatever their order."""
    return content_digest({name: list(shape) for name, shape in shapes.items()})


def parameters_in(model: nn.Module, blocks: Iterable[str]) -> dict[str, nn.Parameter]:
    """The parameters of the modules with these dotted names, each once, by its name in the whole model."""
    modules = plain_modules(model)
    inside = {parameter for block in blocks for parameter in modules[block].parameters()}
    return {name: parameter for name, parameter in parameters_of(model).items() if parameter in inside}


def difference(there: Mapping[str, Iterable[int]], here: Mapping[str, Iterable[int]]) -> str:
    """Where two networks part, in a few words; empty where names and shapes are the same."""
    for name, shape in there.items():
        if name not in here:
            return f"{name} of the one is not in the other"
        if tuple(shape) != tuple(here[name]):
            return f"{name} has the shape {tuple(shape)} in the one and {tuple(here[name])} in the other"
    extra = next((name for name in here if name not in there), None)
    return f"{extra} of the other is not in the one" if extra is not None else ""
