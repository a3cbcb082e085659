"""Which gradient stands for the true one, in words, and what its check came to."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.present.numbers import count, written
from walkback.present.plain import NAME_LENGTH, SENTENCE_LENGTH, middle_out, shortened
from walkback.protocol.diagnostics.known import owners
from walkback.protocol.records import ReferenceCheck

_MOST_NAMES = 8


def reference_line(check: ReferenceCheck) -> str:
    """Which gradient stands for the true one, and what its check came to."""
    if check.candidate == "none":
        return "none was asked for (gradients=False)"
    if check.passed is False:
        owner = owners()["reference_check"]
        return f"none: the gradient failed its check by finite differences; ({owner}) says where and why"
    what = {
        "autograd": "autograd's",
        "seen_through": f"seen through custom backward ({_names(check.seen_through)})",
        "declared": f"as declared ({_names(check.kept)})" if check.kept else "as declared",
    }[check.candidate]
    what += f", with {_names(check.kept)} as declared" if check.seen_through and check.kept else ""
    what += ", of the twin" if check.twin else ""
    if not check.passed:
        return f"{what}; unchecked: {shortened(check.reason, SENTENCE_LENGTH)}"
    kinks = f" ({count(check.kinks_discarded, 'direction')} left out at kinks)" if check.kinks_discarded else ""
    error = written(check.error, 1) if check.error else "0"
    return f"{what}; checked by finite differences, largest error {error}{kinks}"


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(middle_out(name, NAME_LENGTH) for name in names[:_MOST_NAMES])
    return listed + (f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else "")
