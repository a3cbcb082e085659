"""walkback: can a result from a network trained without backpropagation be trusted?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from walkback._version import __version__

if TYPE_CHECKING:
    from walkback.guard import strict
    from walkback.present.text import compare
    from walkback.protocol.baseline import frozen_baseline
    from walkback.protocol.credit import CreditRule, Trace
    from walkback.protocol.diagnose import diagnose
    from walkback.protocol.diagnostics.base import Diagnostic
    from walkback.protocol.diagnostics.declare import Quantity, Threshold
    from walkback.protocol.judge import judge
    from walkback.protocol.panels.base import Member, Panel
    from walkback.protocol.provenance import provenance
    from walkback.protocol.records import (
        Alignment,
        DiagnosticReport,
        Measurements,
        Reading,
        ReferenceCheck,
        State,
    )
    from walkback.protocol.scores import FrozenBaseline, Score
    from walkback.protocol.seeds import SeedSummary, combine
    from walkback.protocol.thresholds import DiagnosticThresholds
    from walkback.registry import register, unregister
    from walkback.watch.monitor import Monitor
    from walkback.watch.partial import PartialMeasurements, partial_audit
    from walkback.watch.policy import Decision
    from walkback.watch.replay import replay

_HOME = {
    "Alignment": "protocol.records",
    "CreditRule": "protocol.credit",
    "Decision": "watch.policy",
    "Diagnostic": "protocol.diagnostics.base",
    "DiagnosticReport": "protocol.records",
    "DiagnosticThresholds": "protocol.thresholds",
    "FrozenBaseline": "protocol.scores",
    "Measurements": "protocol.records",
    "Member": "protocol.panels.base",
    "Monitor": "watch.monitor",
    "Panel": "protocol.panels.base",
    "PartialMeasurements": "watch.partial",
    "Quantity": "protocol.diagnostics.declare",
    "Reading": "protocol.records",
    "ReferenceCheck": "protocol.records",
    "Score": "protocol.scores",
    "SeedSummary": "protocol.seeds",
    "State": "protocol.records",
    "Threshold": "protocol.diagnostics.declare",
    "Trace": "protocol.credit",
    "combine": "protocol.seeds",
    "compare": "present.text",
    "diagnose": "protocol.diagnose",
    "frozen_baseline": "protocol.baseline",
    "judge": "protocol.judge",
    "partial_audit": "watch.partial",
    "register": "registry",
    "provenance": "protocol.provenance",
    "replay": "watch.replay",
    "strict": "guard",
    "unregister": "registry",
}

__all__ = [
    "Alignment",
    "CreditRule",
    "Decision",
    "Diagnostic",
    "DiagnosticReport",
    "DiagnosticThresholds",
    "FrozenBaseline",
    "Measurements",
    "Member",
    "Monitor",
    "Panel",
    "PartialMeasurements",
    "Quantity",
    "Reading",
    "ReferenceCheck",
    "Score",
    "SeedSummary",
    "State",
    "Threshold",
    "Trace",
    "__version__",
    "combine",
    "compare",
    "diagnose",
    "frozen_baseline",
    "judge",
    "partial_audit",
    "provenance",
    "register",
    "replay",
    "strict",
    "unregister",
]


def __getattr__(name: str) -> Any:
    # Importing on first use keeps `import walkback` and `walkback --help` free of torch.
    if name == "jax":  # a package with an extra of its own
        return importlib.import_module("walkback.jax")
    if name in _HOME:
        from walkback.extras import naming_extras

        with naming_extras():
            return getattr(importlib.import_module(f"walkback.{_HOME[name]}"), name)
    raise AttributeError(f"module 'walkback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
