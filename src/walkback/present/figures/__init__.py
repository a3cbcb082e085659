"""Figures for papers and docs, one file each. matplotlib is imported here and nowhere else, and only when drawing."""

from __future__ import annotations

from typing import Any

from walkback.addresses import require_call
from walkback.registry import Registry

FIGURES = Registry(
    "figure",
    {
        "headline": "walkback.present.figures.headline:plot",
        "audit": "walkback.present.figures.audit:plot",
        "temporal": "walkback.present.figures.temporal:plot",
        "penalty": "walkback.present.figures.penalty:plot",
        "sensitivity": "walkback.present.figures.sensitivity:plot",
        "sites": "walkback.present.figures.sites:plot",
    },
    group="figures",
    check="walkback.present.figures:check_figure",
)


def check_figure(name: str, thing: Any) -> None:
    """Refuse what cannot be called with networks."""
    require_call(f"the figure {name!r}", thing, 1, "a function from a list of networks to a matplotlib Figure")
