"""Figures for papers and docs, one file each. matplotlib is imported here and nowhere else, and only when drawing."""

from walkback.registry import Registry

FIGURES = Registry(
    "figure",
    {
        "audit": "walkback.present.figures.audit:draw",
        "temporal": "walkback.present.figures.temporal:draw",
        "penalty": "walkback.present.figures.penalty:draw",
        "sensitivity": "walkback.present.figures.sensitivity:draw",
        "sites": "walkback.present.figures.sites:draw",
    },
)
