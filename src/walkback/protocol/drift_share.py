"""The drift share ρ, and what averaging over a group makes of it: c(n) = nρ / (nρ + 1 − ρ). No torch."""

from __future__ import annotations

SMALL_SHARE = 0.01
"""Below this, what carries (c) over its ceiling is the averaging over the group, and not drift."""
GROUP_SIZE = 128


def stability_at(share: float, size: int = GROUP_SIZE) -> float:
    """c(n): the cosine of two means of n samples under a drift share."""
    return size * share / (size * share + 1 - share)


def implied_share(stability: float, size: int = GROUP_SIZE) -> float:
    """The ρ at which c(n) is this."""
    return stability / (size - (size - 1) * stability)
