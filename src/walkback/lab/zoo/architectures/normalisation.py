"""Which norms an architecture has: it says so itself, for the form of a paper's appendix. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from walkback.errors import WalkbackError

Build = TypeVar("Build", bound=Callable[..., Any])


def normalised_by(words: str) -> Callable[[Build], Build]:
    """Say of an architecture which norm it has, where in the block, and whether one is terminal.

    Where `norm_position` is an option of the architecture, the name of the norm is enough.
    """

    def said(build: Build) -> Build:
        vars(build)["normalisation"] = words
        return build

    return said


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
    return {**known, "normalisation": getattr(build, "normalisation", None)}
