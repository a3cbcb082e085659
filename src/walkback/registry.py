"""Names of diagnostics, methods, architectures, data sets and renderers, looked up lazily.

One row is `name: "module:object"`. Nothing is imported until a name is asked for, so listing what there
is costs no import of torch.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from walkback.errors import UnknownName


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to end an error message with: the nearest known name, then all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    suggestion = f"Did you mean {near[0]!r}? " if near else ""
    return f"{suggestion}Known: {', '.join(names)}."


class Registry(Mapping[str, str]):
    """A read-only table of names, each pointing at an object that is imported when it is asked for."""

    def __init__(self, kind: str, rows: Mapping[str, str]) -> None:
        self.kind = kind
        self._rows = dict(rows)

    def __getitem__(self, name: str) -> str:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def require(self, name: str) -> None:
        """Raise `UnknownName`, with a suggestion, for a name that is not there."""
        if name not in self._rows:
            quoted = name if len(name) <= 60 else name[:57] + "…"
            raise UnknownName(f"there is no {self.kind} called {quoted!r}. {did_you_mean(name, self._rows)}")

    def load(self, name: str) -> Any:
        """The object behind a name; an unknown name raises `UnknownName` with a suggestion."""
        self.require(name)
        module, _, attribute = self._rows[name].partition(":")
        return getattr(importlib.import_module(module), attribute)


DIAGNOSTICS = Registry(
    "diagnostic",
    {
        "residual_growth": "walkback.protocol.diagnostics.residual_growth:ResidualGrowth",
        "gradient_floor": "walkback.protocol.diagnostics.gradient_floor:GradientFloor",
        "direction_drift": "walkback.protocol.diagnostics.direction_drift:DirectionDrift",
        "frozen_margin": "walkback.protocol.diagnostics.frozen_margin:FrozenMargin",
    },
)

RENDERERS = Registry(
    "renderer",
    {
        "text": "walkback.present.text:render",
        "markdown": "walkback.present.markdown:render",
        "latex": "walkback.present.latex:render",
        "html": "walkback.present.html:render",
    },
)

METHODS = Registry(
    "method",
    {
        "bp": "walkback.zoo.methods.bp:BP",
        "fa": "walkback.zoo.methods.fa:FA",
        "fa_block": "walkback.zoo.methods.fa_block:BlockFA",
        "dfa": "walkback.zoo.methods.dfa:DFA",
        "state_bridge": "walkback.zoo.methods.state_bridge:StateBridge",
        "credit_bridge": "walkback.zoo.methods.credit_bridge:CreditBridge",
        "credit_bridge_vector": "walkback.zoo.methods.credit_bridge_vector:CreditBridgeVector",
        "ep": "walkback.zoo.methods.ep:EP",
    },
)

ARCHITECTURES = Registry(
    "architecture",
    {
        "resmlp": "walkback.zoo.architectures.resmlp:resmlp",
        "vit_mini": "walkback.zoo.architectures.vit_mini:vit_mini",
        "small_cnn": "walkback.zoo.architectures.small_cnn:small_cnn",
        "student_net": "walkback.zoo.architectures.student_net:student_net",
        "small_resnet": "walkback.zoo.architectures.small_resnet:small_resnet",
    },
)

DATASETS = Registry(
    "data set",
    {
        "cifar10": "walkback.zoo.datasets.cifar10:load",
        "fashion_mnist": "walkback.zoo.datasets.fashion_mnist:load",
        "digits": "walkback.zoo.datasets.digits:load",
        "synthetic_teacher": "walkback.zoo.datasets.synthetic_teacher:load",
    },
)
