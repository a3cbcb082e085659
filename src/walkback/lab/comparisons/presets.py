"""The audit of the field: every method on four networks, wherever it is defined, under one protocol.

Sizes and epochs are cut so that all of it takes about twenty core-hours by `walkback lab compare --estimate`
(results/estimate_field.json). The cheapest network has five seeds, the others three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from walkback.errors import UnknownName
from walkback.lab.comparisons.plan import BP, Comparison
from walkback.lab.grids.grid import row_of
from walkback.lab.registry import METHODS
from walkback.lab.zoo.data_spec import DataSpec
from walkback.registry import did_you_mean

BUDGET = 5
CONTEXT, LETTERS = 64, 84
ALL = "field"


def mlp_mnist() -> Comparison:
    """Two hidden layers, digits: what most papers of the field begin with."""
    return _everything("mlp", "mnist", DataSpec((1, 28, 28), 10), {"widths": [128, 128]}, epochs=15, seeds=5)


def resmlp_cifar10() -> Comparison:
    """Four residual blocks on flattened pictures: the network of the protocol, at half its width."""
    return _everything("resmlp", "cifar10", DataSpec((3, 32, 32), 10), {"width": 128}, epochs=12, seeds=3)


def small_cnn_cifar10() -> Comparison:
    """Convolutions with few channels."""
    options = {"channels": [8, 16, 32]}
    return _everything("small_cnn", "cifar10", DataSpec((3, 32, 32), 10), options, epochs=5, seeds=3)


def gpt_shakespeare() -> Comparison:
    """A small causal transformer that predicts each next character."""
    spec = DataSpec((CONTEXT,), LETTERS, vocabulary=LETTERS, target_shape=(CONTEXT,))
    options = {"width": 64, "depth": 3, "heads": 4}
    return _everything("gpt", "shakespeare", spec, options, epochs=4, seeds=3, data_options={"share": 0.1})


FIELD: dict[str, Callable[[], Comparison]] = {
    "field_mlp_mnist": mlp_mnist,
    "field_resmlp_cifar10": resmlp_cifar10,
    "field_small_cnn_cifar10": small_cnn_cifar10,
    "field_gpt_shakespeare": gpt_shakespeare,
}
"""In the order of the page."""


def preset(name: str) -> list[Comparison]:
    """The comparison of that name, or with `field` all of them."""
    if name != ALL and name not in FIELD:
        raise UnknownName(f"there is no comparison called {name!r}. {did_you_mean(name, [ALL, *FIELD])}")
    return [made() for key, made in FIELD.items() if name in (ALL, key)]


def _everything(
    architecture: str,
    data: str,
    spec: DataSpec,
    options: dict[str, Any],
    *,
    epochs: int,
    seeds: int,
    data_options: dict[str, Any] | None = None,
) -> Comparison:
    """All methods of walkback's own with their default options, but for those that are not defined on the network."""
    why = {method: undefined_on(method, architecture, spec, options) for method in METHODS.own if method != BP}
    return Comparison(
        architecture=architecture,
        data=data,
        rows=tuple(row_of(method, method, {}) for method, reason in why.items() if not reason),
        budget=BUDGET,
        seeds=seeds,
        epochs=epochs,
        settings={"architecture_options": options, **({"data_options": data_options} if data_options else {})},
        undefined={method: reason for method, reason in why.items() if reason},
        called=f"field_{architecture}_{data}",
    )


def undefined_on(method: str, architecture: str, spec: DataSpec, options: dict[str, Any]) -> str:
    """Why a method is not defined on a network; empty where it is. No data is loaded, and no weight drawn."""
    import torch

    from walkback.lab.zoo import build_model

    with torch.device("meta"):
        model = build_model(architecture, spec, **options)
    return str(METHODS.load(method).why_not(model))
