"""The rule that a network is said to be trained by: backpropagation, one of the bench's, or misspelt? No torch."""

from __future__ import annotations

import re
from typing import Any

from walkback.errors import InputError, nearest
from walkback.protocol.schema import shortened

_OTHERS = (
    "fa", "feedback alignment", "fa_block", "dfa", "direct feedback alignment", "scaled dfa", "sdfa", "drtp", "ep",
    "equilibrium propagation", "pc", "predictive coding", "dtp", "target propagation", "kp", "kolen-pollack",
    "weight mirror", "sign symmetry", "usf", "local loss", "local losses", "mono-forward", "forward-forward", "ff",
    "forward gradient", "pepita", "state bridge", "credit bridge", "credit_bridge_vector", "hebbian",
)  # fmt: skip
"""Names of rules that are not backpropagation."""
_NAMES = frozenset({"bp", "backprop", "backpropagation", "sgd", "gradientdescent", "autograd"})
_ON_THE_BENCH = frozenset({"fa", "feedbackalignment", "dfa", "directfeedbackalignment"})
"""Beside backpropagation, what the healthy networks of the validity bench were trained by."""


def is_backpropagation(claimed: str) -> bool:
    """Whether the words name backpropagation; `BP`, `Back-propagation` and `backprop (AdamW)` do."""
    return _letters(_bare(claimed)) in _NAMES


def is_on_the_bench(claimed: str) -> bool:
    """Whether healthy networks of the bench were trained by this rule; `DFA (credit scaled)` is another one."""
    return is_backpropagation(claimed) or _letters(claimed).removeprefix("textbook") in _ON_THE_BENCH


def checked_rule(given: Any) -> str:
    """What a caller gave as the name of the rule; anything but text is refused."""
    if isinstance(given, str):
        return given
    raise InputError(
        f"claimed_rule is {shortened(given)}; expected the name of the rule as text, such as 'DFA'. Leave it out where "
        "it is not known."
    )


def remark_on(claimed: str) -> str:
    """That a name is not known and near one that is, and what follows; empty for known names and names of one's own.

    A rule may be called anything: one that is not backpropagation by its name counts as another rule.
    """
    name = _bare(claimed)
    if not claimed or is_backpropagation(claimed) or _letters(name) in set(map(_letters, _OTHERS)):
        return ""
    meant = nearest(name.strip().lower(), (*sorted(_NAMES), *_OTHERS)).strip()
    if not meant:
        return ""
    return f"claimed_rule={claimed!r} is not a rule that is known here, and counts as one other than BP. {meant}"


def _bare(claimed: str) -> str:
    """Without what stands in brackets."""
    return re.sub(r"\(.*?\)", "", claimed)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
