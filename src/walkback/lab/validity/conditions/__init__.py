"""The conditions of the bench, by name: healthy, and one file for each fault."""

from __future__ import annotations

from walkback.lab.validity.conditions.base import Condition
from walkback.registry import Registry

_HERE = "walkback.lab.validity.conditions"
FAULTS = (
    "frozen_blocks",
    "dead_blocks",
    "head_only",
    "resampled_feedback",
    "permuted_credit",
    "permuted_labels",
    "exploding_block",
    "exploding_stem",
    "slow_growth",
    "broken_reference",
    "strong_stem",
    "bp_in_disguise",
    "bp_as_dfa",
    "test_in_training",
    "other_headline",
    "best_of_n",
)
CONDITIONS = Registry("condition", {name: f"{_HERE}.{name}:CONDITION" for name in ("healthy", *FAULTS)})


def condition_named(name: str) -> Condition:
    """A condition by its name."""
    found: Condition = CONDITIONS.load(name)
    return found
