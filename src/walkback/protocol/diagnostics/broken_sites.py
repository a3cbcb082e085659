"""Where a network first holds NaN or Inf. No torch."""

from __future__ import annotations


def first_broken(counts: tuple[int, ...] | None) -> int | None:
    """The first site with a non-finite sample."""
    return next((site for site, count in enumerate(counts or ()) if count), None)


def first_non_finite(values: tuple[float, ...]) -> int | None:
    """The first site whose value is NaN or infinite."""
    return next((site for site, x in enumerate(values) if x - x != 0), None)
