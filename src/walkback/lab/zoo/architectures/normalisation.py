"""Which norms an architecture has: it says so itself, for the form of a paper's appendix. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Build = TypeVar("Build", bound=Callable[..., Any])


def normalised_by(words: str, **by_norm: str) -> Callable[[Build], Build]:
    """Say of an architecture which norm it has, where in the block, and whether one is terminal.

    Where `norm_position` is an option of the architecture, the name of the norm is enough. Where `norm` is one, there
    are words for each value of it that is not the default.
    """

    def said(build: Build) -> Build:
        vars(build)["normalisation"] = words
        vars(build)["normalisation_by_norm"] = by_norm
        return build

    return said
