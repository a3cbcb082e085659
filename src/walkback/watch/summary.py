"""A run over time, from any record of it: when each diagnostic fired, and what stopping would have saved. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from walkback.protocol.judge import read
from walkback.protocol.schema import Record
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.policy import Decision, StopPolicy
from walkback.watch.trace_line import TraceLine
from walkback.watch.trail import Trail


class CourseSummary(Record):
    """What a run's record says of its course."""

    measured: int
    """At how many moments something was measured that is judged."""
    unmeasured: int = 0
    """At how many moments nothing was."""
    unmeasured_at_end: bool = False
    """Whether the last moment is one of those."""
    unmeasured_reason: str = ""
    """The reason that the record gives for it."""
    last: At
    """The last moment."""
    first_fired: dict[str, At] = Field(default_factory=dict)
    """When each diagnostic first fired, by its letter."""
    stop: At | None = None
    """Where the policy would have stopped the run; None where it never would."""
    stop_reason: str = ""
    """Why the policy would have stopped it."""
    saved_share: float | None = None
    """The share of the epochs (where there are none: steps) that stopping would have saved."""
    saved_seconds: float | None = None
    """The seconds that stopping would have saved; None where the record has no times."""
    accuracy_at_stop: float | None = None
    """The accuracy at that moment, in [0, 1]."""
    best_accuracy_after: float | None = None
    """The best accuracy that going on led to."""
    final_accuracy: float | None = None
    """The accuracy at the last moment, in [0, 1]."""


def trail_of(
    lines: Iterable[TraceLine], thresholds: DiagnosticThresholds | None = None, policy: StopPolicy | None = None
) -> Trail:
    """The lines of a trace, each judged under these thresholds."""
    trail, losses = Trail(policy), LossCourse()
    for line in lines:
        measured = losses.with_decrease(line.at, line.loss, line.measurements())
        trail.add(line.at, measured, read(measured, thresholds), line.seconds, line.unmeasured)
    return trail


def summary_of(trail: Trail) -> CourseSummary:
    """First firings, and where the trail's policy would have stopped the run."""
    gaps = trail.unmeasured()
    saved = _saved(trail, *trail.stop) if trail.stop is not None else {}
    return CourseSummary(
        measured=len(trail) - sum(gaps),
        unmeasured=sum(gaps),
        unmeasured_at_end=gaps[-1],
        unmeasured_reason=trail.why_unmeasured if any(gaps) else "",
        last=trail.at(-1),
        first_fired=trail.course.decision.first_fired,
        final_accuracy=trail.last.headline_acc if trail.last is not None else None,
        **saved,
    )


def _saved(trail: Trail, number: int, decision: Decision) -> dict[str, object]:
    """What stopping there would have saved, and what accuracy it would have cost."""
    here, end = trail.at(number).position, trail.at(-1).position
    seconds, accuracies = trail.series("seconds")[number + 1 :], trail.series("accuracy")
    later = [known for known in accuracies[number + 1 :] if known is not None]
    return {
        "stop": decision.at,
        "stop_reason": decision.reason,
        "saved_share": 1 - here / end if here is not None and end else None,
        "saved_seconds": sum(s for s in seconds if s is not None) if None not in seconds else None,
        "accuracy_at_stop": accuracies[number],
        "best_accuracy_after": max(later) if later else None,
    }
