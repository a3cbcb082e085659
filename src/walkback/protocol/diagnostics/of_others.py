"""Runs diagnostics of other packages: a failure of theirs is reported in one line and stops nothing else. No torch.

A fault of one of walkback's own diagnostics is raised: to leave it out would hide a defect of this package.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from walkback.errors import WalkbackWarning
from walkback.protocol.readings import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from walkback.protocol.diagnostics.base import Diagnostic
    from walkback.protocol.measurements import Measurements

LEFT_OUT = object()
"""What stands for the result of a diagnostic that failed."""


def result_or_left_out(one: type[Diagnostic], doing: str, work: Callable[[], Any]) -> Any:
    """What the work of a diagnostic returns; `LEFT_OUT`, with a warning, where another package's diagnostic fails."""
    if one.__module__.split(".")[0] == "walkback":
        return work()
    try:
        return work()
    except (Exception, SystemExit) as error:  # whatever a stranger's code raises
        why = f"it failed while {doing}, with {type(error).__name__}: {error}"
        told = f"({one.letter}) {one.title} of {one.__module__} is left out: {why}"
        warnings.warn(" ".join(told.split()), WalkbackWarning, stacklevel=3)
        return LEFT_OUT


def read_by(one: type[Diagnostic], limits: Mapping[str, float | None] | None, measured: Measurements) -> Reading:
    """The reading of one diagnostic; not measured where another package's diagnostic fails on it."""
    reading = result_or_left_out(one, "judging", lambda: _checked(one(limits).judge(measured)))
    if reading is LEFT_OUT:
        return one(limits).reading_maker().not_measured("The diagnostic failed, so it says nothing.")
    return reading  # type: ignore[no-any-return]


def _checked(reading: Any) -> Reading:
    if not isinstance(reading, Reading):
        raise TypeError(f"judge returned {type(reading).__name__}; expected a walkback.Reading")
    return reading
