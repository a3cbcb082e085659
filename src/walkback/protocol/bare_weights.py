"""Layers that are no modules: where a forward pass multiplies by weights that no layer on the stream holds."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.protocol.calls import Call, Watched
from walkback.protocol.chains import Run, innermost
from walkback.protocol.flow import Value
from walkback.protocol.operations import PRODUCTS
from walkback.protocol.parameters import parameters_of
from walkback.protocol.skips import is_matrix


def stream_layers(watched: Watched) -> Run:
    """The single layers that the input passes through, be they blocks or not."""
    calls = [call for call in watched.calls if call.has_matrix and watched.leads_on(call) and not call.makes_weights]
    return innermost(calls)


def bare_products(watched: Watched, layers: Sequence[Call]) -> list[Value]:
    """What is made by a weight matrix outside of the layers; but not the head, behind which nothing follows."""
    found = [
        value
        for value in watched.reach.values
        if value.made_by in PRODUCTS
        and value.fed
        and watched.reach.leads_on(value)
        and any(is_matrix(watched, number) for number in value.inputs)
        and not any(layer.entered < value.time < layer.left for layer in layers)
    ]
    is_last = bool(found) and all(layer.left < found[-1].time for layer in layers)
    return found[:-1] if is_last else found


def weight_at(watched: Watched, product: Value) -> str:
    """The name of a parameter that a product's weights are, or are made from."""
    matrices = [number for number in product.inputs if is_matrix(watched, number)]
    sources = set().union(*(watched.reach.ancestors(watched.reach.values[number]) for number in matrices))
    used = {id(watched.parameters[number]) for number in sources & set(watched.parameters)}
    names = {id(parameter): name for name, parameter in parameters_of(watched.root).items()}
    return next(name for key, name in names.items() if key in used)
