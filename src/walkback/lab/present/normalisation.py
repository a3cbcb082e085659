"""What the form of a paper's appendix says of norms: the architecture says it, where it can be imported. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walkback.errors import WalkbackError


def with_normalisation(run: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The record of a run with what its architecture says of its norms, where the record does not say it."""
    from walkback.lab.registry import ARCHITECTURES

    known = run or {}
    if "normalisation" in known or "architecture" not in known.get("config", {}):
        return known
    try:
        build = ARCHITECTURES.load(str(known["config"]["architecture"]))
    except (WalkbackError, ImportError):  # of a package, or with an engine, that is not installed here
        return known
    norm = known["config"].get("architecture_options", {}).get("norm")
    words = getattr(build, "normalisation_by_norm", {}).get(norm, getattr(build, "normalisation", None))
    return {**known, "normalisation": words}
