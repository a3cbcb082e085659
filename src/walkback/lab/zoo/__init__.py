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
    """A network of that architecture for that data; its weights come from torch's global generator."""
    build = ARCHITECTURES.load(architecture)
    keywords = [p.name for p in inspect.signature(build).parameters.values() if p.kind is p.KEYWORD_ONLY]
    refuse_unknown(f"architecture {architecture}", options, keywords)
    refuse_misread(architecture, build, data)
    return build(data, **options)  # type: ignore[no-any-return]


def build_method(method: str, model: BlockModel, generator: torch.Generator | None = None, **options: Any) -> Method:
    """A method of that name for that model, its feedback drawn from the generator. None: torch's own."""
    return METHODS.load(method)(model, generator, **options)  # type: ignore[no-any-return]


def defined_on(method: str) -> dict[str, str]:
    """Of every architecture that can be used, why the method is not defined on it; empty where it is."""
    kind, found = METHODS.load(method), {}
    for name, build in ARCHITECTURES.loaded():
        with torch.device("meta"):  # nobody reads the weights
            found[name] = kind.why_not(build(getattr(build, "example_data", EXAMPLE_DATA)))
    return found
