"""Networks to audit: architectures × methods, each found by its name.

data = DataSpec((3, 32, 32), classes=10)
model = build_model("resmlp", data, width=256)
method = build_method("dfa", model, credit_norm="per_sample")
method.accumulate(inputs, targets)      # then the optimizer's step, over model and method
method.after_step()
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from walkback.lab.registry import ARCHITECTURES, METHODS
from walkback.lab.zoo.architectures.tokens import refuse_misread
from walkback.lab.zoo.contract import EXAMPLE_DATA, Block, BlockModel, DataSpec, Method, MethodOptions, StepResult
from walkback.lab.zoo.methods.freezing import Freezing, Ladder, freeze, read_freezing
from walkback.lab.zoo.options import refuse_unknown

__all__ = [
    "Block",
    "BlockModel",
    "DataSpec",
    "Freezing",
    "Ladder",
    "Method",
    "MethodOptions",
    "StepResult",
    "build_method",
    "build_model",
    "defined_on",
    "freeze",
    "read_freezing",
]


def build_model(architecture: str, data: DataSpec, **options: Any) -> BlockModel:
    """A network of the zoo, by the name of its architecture. Its weights come from torch's global generator.

    Args:
        architecture: its name, such as `resmlp`; `walkback lab zoo` lists them.
        data: what it is built for.
        **options: of the architecture, such as `width=256`; its defaults where not given.

    Returns:
        The network, untrained.

    Raises:
        UnknownName: there is no such architecture.
        InputError: an option is unknown, or the architecture cannot read such data.

    Examples:
        >>> from walkback.lab import DataSpec
        >>> from walkback.lab.zoo import build_model
        >>> model = build_model("resmlp", DataSpec((3, 8, 8), classes=10), width=16, depth=2)
        >>> model.site_shapes
        ((16,), (16,), (16,))
    """
    build = ARCHITECTURES.load(architecture)
    keywords = [p.name for p in inspect.signature(build).parameters.values() if p.kind is p.KEYWORD_ONLY]
    refuse_unknown(f"architecture {architecture}", options, keywords)
    refuse_misread(architecture, build, data)
    return build(data, **options)  # type: ignore[no-any-return]


def build_method(method: str, model: BlockModel, generator: torch.Generator | None = None, **options: Any) -> Method:
    """A method of the zoo for a network, by its name.

    Args:
        method: its name, such as `dfa`; `walkback lab zoo` lists them.
        model: the network that it trains.
        generator: what its feedback is drawn from; torch's global generator where None.
        **options: of the method, such as `credit_norm="per_sample"`; its defaults where not given.

    Returns:
        The method, with fresh feedback.

    Raises:
        UnknownName: there is no such method.
        InputError: an option is unknown, or the method is not defined on this network.

    Examples:
        >>> import torch
        >>> from walkback.lab import DataSpec
        >>> from walkback.lab.zoo import build_method, build_model
        >>> _ = torch.manual_seed(0)
        >>> model = build_model("resmlp", DataSpec((8,), classes=3), width=16, depth=2)
        >>> method = build_method("dfa", model)
        >>> step = method.accumulate(torch.randn(4, 8), torch.tensor([0, 1, 2, 0]))  # fills .grad; the optimizer steps
        >>> step.logits.shape
        torch.Size([4, 3])
    """
    return METHODS.load(method)(model, generator, **options)  # type: ignore[no-any-return]


def defined_on(method: str) -> dict[str, str]:
    """Of every architecture that can be used, why the method is not defined on it; empty where it is."""
    kind, found = METHODS.load(method), {}
    for name, build in ARCHITECTURES.loaded():
        with torch.device("meta"):  # nobody reads the weights
            found[name] = kind.why_not(build(getattr(build, "example_data", EXAMPLE_DATA)))
    return found
