"""A run over time, from any record of it: when each diagnostic fired, and what stopping would have saved. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import Field

from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import Record
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.moment import At
from walkback.watch.policy import Course, Decision, StopPolicy
from walkback.watch.trace_line import TraceLine


@dataclass(frozen=True)
class Moment:
    """One measured moment of a run, judged."""

    at: At
    report: DiagnosticReport
    seconds: float | None = None
    """What training and measuring took since the moment before."""


class CourseSummary(Record):
    """What a run's record says of its course."""

    measured: int
    """How many moments were measured."""
    last: At
    first_fired: dict[str, At] = Field(default_factory=dict)
    stop: At | None = None
    """Where the policy would have stopped the run; None where it never would."""
    stop_reason: str = ""
    saved_share: float | None = None
    """The share of the epochs (where there are none: steps) that stopping would have saved."""
    saved_seconds: float | None = None
    accuracy_at_stop: float | None = None
    best_accuracy_after: float | None = None
    """The best accuracy that going on led to."""
    final_accuracy: float | None = None


def moments_of(lines: Iterable[TraceLine], thresholds: DiagnosticThresholds | None = None) -> list[Moment]:
    """The lines of a trace, each judged under these thresholds."""
    return [Moment(line.at, judge(line.measurements(), thresholds), line.seconds) for line in lines]


def summary_of(moments: Sequence[Moment], policy: StopPolicy | None = None) -> CourseSummary:
    """First firings, and where a policy would have stopped the run."""
    course = Course(policy or StopPolicy())
    stopped: tuple[int, Decision] | None = None
    for number, moment in enumerate(moments):
        decision = course.see(moment.at, moment.report.readings)
        if decision.stop and stopped is None:
            stopped = number, decision
    saved = _saved(moments, *stopped) if stopped is not None else {}
    return CourseSummary(
        measured=len(moments),
        last=moments[-1].at,
        first_fired=course.decision.first_fired,
        final_accuracy=moments[-1].report.headline_acc,
        **saved,
    )


def _saved(moments: Sequence[Moment], number: int, decision: Decision) -> dict[str, object]:
    """What stopping there would have saved, and what accuracy it would have cost."""
    after = moments[number + 1 :]
    here, end = moments[number].at.position, moments[-1].at.position
    seconds = [moment.seconds for moment in after]
    accuracies = [m.report.headline_acc for m in after if m.report.headline_acc is not None]
    return {
        "stop": decision.at,
        "stop_reason": decision.reason,
        "saved_share": 1 - here / end if here is not None and end else None,
        "saved_seconds": sum(s for s in seconds if s is not None) if None not in seconds else None,
        "accuracy_at_stop": moments[number].report.headline_acc,
        "best_accuracy_after": max(accuracies) if accuracies else None,
    }
