"""The lab: where networks are made and studied, with the tool as anyone would use it. The tool never imports it.

What authors of methods, architectures and data sets build on is here: `from walkback.lab import LocalMethod`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walkback.lab.zoo.answers import mean_loss, output_error, sample_losses
    from walkback.lab.zoo.architectures.tokens import reads_tokens
    from walkback.lab.zoo.contract import (
        Block,
        BlockModel,
        CreditlessMethod,
        DataSpec,
        LinearBlock,
        Method,
        MethodOptions,
        SkiplessBlock,
        StepResult,
    )
    from walkback.lab.zoo.datasets.splits import AS_IT_IS, Dataset, Preparation, Split
    from walkback.lab.zoo.methods.credit_forms import FactoredCredit
    from walkback.lab.zoo.methods.local_step import LocalMethod, LocalOptions
    from walkback.lab.zoo.methods.site_vectors import as_site, vector_size

_HOME = {
    "AS_IT_IS": "datasets.splits",
    "Block": "contract",
    "BlockModel": "contract",
    "CreditlessMethod": "contract",
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
    "mean_loss": "answers",
    "output_error": "answers",
    "reads_tokens": "architectures.tokens",
    "sample_losses": "answers",
    "vector_size": "methods.site_vectors",
}

__all__ = [
    "AS_IT_IS",
    "Block",
    "BlockModel",
    "CreditlessMethod",
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
    "mean_loss",
    "output_error",
    "reads_tokens",
    "sample_losses",
    "vector_size",
]


def __getattr__(name: str) -> Any:
    # Importing on first use: most of the lab needs no torch.
    if name in _HOME:
        return getattr(importlib.import_module(f"walkback.lab.zoo.{_HOME[name]}"), name)
    raise AttributeError(f"module 'walkback.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
