"""Facts: labels with what stands beside them, as every rendering lists them."""

from __future__ import annotations

from collections.abc import Iterable

from walkback.present.plain import ELLIPSIS

Facts = list[tuple[str, str]]
"""Labels and what stands beside them."""

_MOST_ROWS = 16
"""Rows of one kind that a rendering lists before it says how many more the record holds."""


def capped(rows: Iterable[tuple[str, str]], most: int = _MOST_ROWS) -> Facts:
    """The first rows, and how many more there are."""
    listed = list(rows)
    more = len(listed) - most
    return listed if more <= 0 else [*listed[:most], (ELLIPSIS, f"{more:,} more in the record")]
