"""Whether `walkback.strict()` is in force: asked by code that judges, and free of torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from walkback.errors import PitfallError

_NAN_RAISES: ContextVar[bool] = ContextVar("walkback_nan_raises", default=False)


@contextmanager
def nan_raises(wanted: bool = True) -> Iterator[None]:
    """Make NaN raise wherever walkback would compare it with a threshold."""
    token = _NAN_RAISES.set(wanted)
    try:
        yield
    finally:
        _NAN_RAISES.reset(token)


def about_to_compare(figure: float | None, with_what: str) -> None:
    """Under `strict()`, refuse to judge NaN; otherwise the caller fires on it, as on every non-finite figure."""
    if figure is not None and math.isnan(figure) and _NAN_RAISES.get():
        raise PitfallError(
            f"NaN was about to be compared with {with_what}: every comparison with NaN is false (pitfall 9). "
            "Find where the network or the measurement diverged."
        )
