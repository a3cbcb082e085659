"""The rule that a network is said to be trained by: whether that is backpropagation. No torch."""

from __future__ import annotations

import re

_NAMES = frozenset({"bp", "backprop", "backpropagation", "sgd", "gradientdescent", "autograd"})


def is_backpropagation(claimed: str) -> bool:
    """Whether the words name backpropagation; `BP`, `Back-propagation` and `backprop (AdamW)` do."""
    words = re.sub(r"\(.*?\)", "", claimed.lower())
    return re.sub(r"[^a-z]", "", words) in _NAMES
