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
    from walkback.protocol.judge import judge
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
    from walkback.watch.monitor import Monitor
    from walkback.watch.partial import PartialMeasurements, partial_audit
    from walkback.watch.policy import Decision
    from walkback.watch.replay import replay

_HOME = {
    "Alignment": "protocol.records",
    "CreditRule": "protocol.credit",
    "Decision": "watch.policy",
    "DiagnosticReport": "protocol.records",
    "DiagnosticThresholds": "protocol.thresholds",
    "FrozenBaseline": "protocol.scores",
    "Measurements": "protocol.records",
    "Monitor": "watch.monitor",
    "PartialMeasurements": "watch.partial",
    "Reading": "protocol.records",
    "ReferenceCheck": "protocol.records",
    "Score": "protocol.scores",
    "SeedSummary": "protocol.seeds",
    "State": "protocol.records",
    "Trace": "protocol.credit",
    "combine": "protocol.seeds",
    "compare": "present.text",
    "diagnose": "protocol.diagnose",
    "frozen_baseline": "protocol.baseline",
    "judge": "protocol.judge",
    "partial_audit": "watch.partial",
    "replay": "watch.replay",
    "strict": "guard",
}

__all__ = [
    "Alignment",
    "CreditRule",
    "Decision",
    "DiagnosticReport",
    "DiagnosticThresholds",
    "FrozenBaseline",
    "Measurements",
    "Monitor",
    "PartialMeasurements",
    "Reading",
    "ReferenceCheck",
    "Score",
    "SeedSummary",
    "State",
    "Trace",
    "__version__",
    "combine",
    "compare",
    "diagnose",
    "frozen_baseline",
    "judge",
    "partial_audit",
    "replay",
    "strict",
]


def __getattr__(name: str) -> Any:
    # Importing on first use keeps `import walkback` and `walkback --help` free of torch.
    if name in _HOME:
        from walkback.extras import naming_extras

        with naming_extras():
            return getattr(importlib.import_module(f"walkback.{_HOME[name]}"), name)
    raise AttributeError(f"module 'walkback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
