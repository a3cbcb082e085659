"""The published recipe of the source study, as options of each of its methods. Importing this imports no torch.

Hao, Wan and Zhai (arXiv 2606.21126) and their repositories state most of it. Every local method minimises
⟨f_l(h_l), a_l⟩ with the credit of the site that the block reads, normalised per sample by its RMS; AdamW 1e-3, weight
decay 0.01, cosine, batch 128, crop and flip, 100 epochs: the defaults of a run, but for the epochs. What they do not
state is an option of the method, and its docstring says which value is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walkback.errors import InputError
from walkback.lab.registry import METHODS

NAME = "source"
LOCAL: Mapping[str, Any] = {"credit_norm": "rms", "credit_site": "read"}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bp": {},
    "fa_block": LOCAL,
    "dfa": {**LOCAL, "feedback_variance": "classes", "feedback_of": "block"},
    "state_bridge": {**LOCAL, "context": "error", "target": "normalised", "predictor_layers": 3},
    "credit_bridge": LOCAL,
    "ep": {
        "credit_norm": "none",
        "credit_site": "read",
        "relaxation": "simultaneous",
        "first_state": "free",
        "update": "displacement",
        "sweeps": 20,
        "beta": 0.5,
        "step": 0.1,
    },
}
"""EP's credit is not normalised, and its α is 0.1: the source states neither, and over its RMS the credit of EP made
the stream explode in every trial, where the published one is stable."""
SETTINGS: Mapping[str, Any] = {"architecture": "resmlp", "data": "cifar10", "epochs": 100}
"""What the published audit was trained on, and for how long."""


def source_options(method: str) -> dict[str, Any]:
    """The options that make a method the published one; a method that the study has not is refused."""
    METHODS.require(method)
    if method not in OPTIONS:
        known = ", ".join(OPTIONS)
        raise InputError(f"the source study has no method {method}; it has {known}. Its FA is fa_block.")
    return dict(OPTIONS[method])


def recipe(method: str) -> dict[str, Any]:
    """The settings of a run as published, which anything that is given goes before."""
    return {**SETTINGS, "method_options": source_options(method)}
