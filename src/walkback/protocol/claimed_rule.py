"""The rule that a network is said to be trained by: is it backpropagation, or another of the bench? No torch."""

from __future__ import annotations

import re

_NAMES = frozenset({"bp", "backprop", "backpropagation", "sgd", "gradientdescent", "autograd"})
_ON_THE_BENCH = frozenset({"fa", "feedbackalignment", "dfa", "directfeedbackalignment"})
"""Beside backpropagation, what the healthy networks of the validity bench were trained by."""


def is_backpropagation(claimed: str) -> bool:
    """Whether the words name backpropagation; `BP`, `Back-propagation` and `backprop (AdamW)` do."""
    return _letters(re.sub(r"\(.*?\)", "", claimed)) in _NAMES


def is_on_the_bench(claimed: str) -> bool:
    """Whether healthy networks of the bench were trained by this rule; `DFA (credit scaled)` is another one."""
    return is_backpropagation(claimed) or _letters(claimed).removeprefix("textbook") in _ON_THE_BENCH


def _letters(claimed: str) -> str:
    return re.sub(r"[^a-z]", "", claimed.lower())
