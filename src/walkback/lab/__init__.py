"""The lab: where networks are made and studied, with the tool as anyone would use it. The tool never imports it.

What authors of methods, architectures and data sets build on is here: `from walkback.lab import LocalMethod`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walkback.lab.zoo.contract import (
        Block,
        BlockModel,
        DataSpec,
        LinearBlock,
        Method,
        MethodOptions,
        SkiplessBlock,
        StepResult,
    )
    from walkback.lab.zoo.datasets.splits import Dataset, Preparation, Split
    from walkback.lab.zoo.methods.credit_forms import FactoredCredit
    from walkback.lab.zoo.methods.local_step import LocalMethod, LocalOptions
    from walkback.lab.zoo.methods.site_vectors import as_site, vector_size

_HOME = {
    "Block": "contract",
    "BlockModel": "contract",
    "DataSpec": "contract",
    "Dataset": "datasets.splits",
    "FactoredCredit": "methods.credit_forms",
    "LinearBlock": "contract",
    "LocalMethod": "methods.local_step",
    "LocalOptions": "methods.local_step",
    "Method": "contract",
    "MethodOptions": "contract",
    "Preparation": "datasets.splits",
    "SkiplessBlock": "contract",
    "Split": "datasets.splits",
    "StepResult": "contract",
    "as_site": "methods.site_vectors",
    "vector_size": "methods.site_vectors",
}

__all__ = [
    "Block",
    "BlockModel",
    "DataSpec",
    "Dataset",
    "FactoredCredit",
    "LinearBlock",
    "LocalMethod",
    "LocalOptions",
    "Method",
    "MethodOptions",
    "Preparation",
    "SkiplessBlock",
    "Split",
    "StepResult",
    "as_site",
    "vector_size",
]


def __getattr__(name: str) -> Any:
    # Importing on first use: most of the lab needs no torch.
    if name in _HOME:
        return getattr(importlib.import_module(f"walkback.lab.zoo.{_HOME[name]}"), name)
    raise AttributeError(f"module 'walkback.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
