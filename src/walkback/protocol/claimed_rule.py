"""The rule that a network is said to be trained by: whether that is backpropagation, or misspelt. No torch."""

from __future__ import annotations

import re

from walkback.errors import nearest

_OTHERS = (
    "fa", "feedback alignment", "fa_block", "dfa", "direct feedback alignment", "scaled dfa", "sdfa", "drtp", "ep",
    "equilibrium propagation", "pc", "predictive coding", "dtp", "target propagation", "kp", "kolen-pollack",
    "weight mirror", "sign symmetry", "usf", "local loss", "local losses", "mono-forward", "forward-forward", "ff",
    "forward gradient", "pepita", "state bridge", "credit bridge", "credit_bridge_vector", "hebbian",
)  # fmt: skip
"""Names of rules that are not backpropagation."""
_NAMES = frozenset({"bp", "backprop", "backpropagation", "sgd", "gradientdescent", "autograd"})


def is_backpropagation(claimed: str) -> bool:
    """Whether the words name backpropagation; `BP`, `Back-propagation` and `backprop (AdamW)` do."""
    return _letters(claimed) in _NAMES


def remark_on(claimed: str) -> str:
    """That a name is not known and near one that is, and what follows; empty for known names and names of one's own.

    A rule may be called anything: one that is not backpropagation by its name counts as another rule.
    """
    if not claimed or is_backpropagation(claimed) or _letters(claimed) in set(map(_letters, _OTHERS)):
        return ""
    meant = nearest(re.sub(r"\(.*?\)", "", claimed).strip().lower(), (*sorted(_NAMES), *_OTHERS)).strip()
    if not meant:
        return ""
    return f"claimed_rule={claimed!r} is no name that is known here, and counts as a rule other than BP. {meant}"


def _letters(claimed: str) -> str:
    return re.sub(r"[^a-z]", "", re.sub(r"\(.*?\)", "", claimed.lower()))
