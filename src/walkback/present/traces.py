"""Traces of runs on a terminal: one row per run, its course as sparklines, and when each diagnostic fired."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.present.numbers import ABSENT, percent, signed, written
from walkback.present.numbers import count as counted
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, one_line, shortened
from walkback.present.sparkline import sparkline
from walkback.present.text_tables import GAP, ruled_table
from walkback.present.thinning import summed_up
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.known import known, scalars
from walkback.protocol.records import DiagnosticReport, State
from walkback.watch.trail import ACCURACY

if TYPE_CHECKING:
    from walkback.watch.summary import CourseSummary
    from walkback.watch.trail import Trail

Write = Callable[[float], str]
Pick = Callable[[Sequence[float]], float]

NAME_WIDTH = 36
_LEAST_NAME = 16
_SPARKS = (20, 10, 5, 0)
"""How many marks a sparkline may have, from the widest to none."""
_FIRED = "fired"


@dataclass(frozen=True)
class Traced:
    """One run to show."""

    name: str
    trail: Trail
    course: CourseSummary
    remark: str = ""
    """What must be known of the file that it is from."""

    def series(self, figure_name: str) -> list[float | None]:
        """One figure at every moment: a name of `trail.figures()`, or `accuracy`."""
        return self.trail.series(figure_name)


@dataclass(frozen=True)
class _Curve:
    """One column of the table: a sparkline, and the last value."""

    heading: str
    name: str
    write: Write
    pick: Pick

    def cells(self, traces: Sequence[Traced], sparks: int) -> list[Text]:
        return [_sparks_and_last(trace.series(self.name), sparks, self.write, self.pick) for trace in traces]

    def width(self, traces: Sequence[Traced], sparks: int) -> int:
        return GAP + max(len(self.heading), *(cell.cell_len for cell in self.cells(traces, sparks)))


@dataclass(frozen=True)
class _Layout:
    """What has room beside what fired, which never gives way."""

    curves: Sequence[_Curve]
    sparks: int
    name: int
    """How wide names may be."""


def _laid_out(traces: Sequence[Traced], width: int) -> _Layout:
    """Sparklines become shorter, and go, before a curve leaves."""
    curves = _shown(traces)
    longest = min(max(cell_len(one_line(trace.name)) for trace in traces), NAME_WIDTH)
    moments = max(len(str(trace.course.last)) for trace in traces)
    fired = max(len(part) for trace in traces for part in [_FIRED, *firings(trace.course).plain.split("\n")])
    room = width - 2 * GAP - moments - fired
    sparks, taken = _SPARKS[0], 0
    for sparks in _SPARKS:
        taken = sum(curve.width(traces, sparks) for curve in curves)
        if taken + min(longest, _LEAST_NAME) <= room:
            break
    while curves and taken + min(longest, _LEAST_NAME) > room:
        taken -= curves[-1].width(traces, sparks)
        curves = curves[:-1]
    return _Layout(curves, sparks, min(longest, max(room - taken, _LEAST_NAME)))


def traces_table(traces: Sequence[Traced], width: int = 100) -> Table:
    """The table that `walkback watch` shows."""
    layout = _laid_out(traces, width) if traces else _Layout(_shown(traces), 0, 0)
    table = ruled_table()
    for heading in ("run", "at", *(curve.heading for curve in layout.curves), _FIRED):
        table.add_column(heading, no_wrap=True)
    cells = [curve.cells(traces, layout.sparks) for curve in layout.curves]
    for number, trace in enumerate(traces):
        name = Text(middle_out(trace.name, layout.name))
        table.add_row(name, str(trace.course.last), *(column[number] for column in cells), firings(trace.course))
    return table


def _shown(traces: Sequence[Traced]) -> list[_Curve]:
    """The curves that a trace fills: series, how it is written, and which of many values stands for them."""
    live = [(one, scalar) for one, scalar in scalars().values() if scalar.live]
    kept = [(one, scalar) for one, scalar in live if not scalar.gives_way or _filled(traces, scalar.name)]
    # An explosion of the stream, and a gradient that vanishes, may last for a moment.
    return [
        *(_Curve(each.heading, each.name, signed if each.signed else written, _worst(one)) for one, each in kept),
        _Curve("acc", ACCURACY, percent, _latest),
    ]


def _filled(traces: Sequence[Traced], name: str) -> bool:
    return any(value is not None for trace in traces for value in trace.series(name))


def _worst(one: type[Diagnostic]) -> Pick:
    """The value nearest to firing; the latest of a diagnostic that never fires."""
    declared = next(iter(one.thresholds.values()), None)
    if declared is None:
        return _latest
    return min if declared.fires == "<" else max


def traces_blocks(traces: Sequence[Traced], width: int = 100) -> Group:
    """The table, and under it which columns were left out and what must be known of the files."""
    shown = _laid_out(traces, width).curves if traces else _shown(traces)
    left = [curve.heading for curve in _shown(traces) if curve not in shown]
    words = f"not shown at this width: {', '.join(left)}. A wider terminal shows them (or COLUMNS=200)."
    remarks = [words] * bool(left) + [trace.remark for trace in traces if trace.remark]
    return Group(traces_table(traces, width), *map(Text, remarks))


def _sparks_and_last(values: Sequence[float | None], most: int, write: Write, pick: Pick) -> Text:
    shown = summed_up(values, most, pick) if most else []
    if write in (percent, signed):
        # The sparkline is logarithmic, and a score or a difference is read on a linear scale.
        largest = max((abs(v) for v in shown if v is not None and math.isfinite(v)), default=0.0)
        stretch = 4 if write is percent else 1 / largest if largest else 0
        shown = [value if value is None or not math.isfinite(value) else 10 ** (stretch * value) for value in shown]
    last = next((v for v in reversed(values) if v is not None), None)
    return Text(f"{sparkline(shown)} {write(last)}".lstrip() if last is not None else ABSENT)


def _latest(values: Sequence[float]) -> float:
    return values[-1]


def firings(course: CourseSummary) -> Text:
    """`epoch 3 (a) (b)`, a line for each moment; in red where the run would have been stopped."""
    together: dict[str, list[str]] = {}
    for letter, at in sorted(course.first_fired.items()):
        together.setdefault(str(at), []).append(f"({letter})")
    parts = [f"{at} {' '.join(letters)}" for at, letters in together.items()]
    return Text("\n".join(parts) or ABSENT, style="red" if course.stop is not None else "")


def course_blocks(traces: Sequence[tuple[str, CourseSummary, Sequence[str]]]) -> Iterator[RenderableType]:
    """What each run's course came to, in sentences, and what must be known of its record."""
    for name, course, remarks in traces:
        yield Text(middle_out(name, NAME_LENGTH), style="bold")
        for sentence in (course_sentence(course), *remarks):
            yield Padding(Text(sentence), (0, 0, 0, 4))


def course_sentence(course: CourseSummary) -> str:
    """First firings, where the run would have been stopped, what that saves and what it costs."""
    if not course.measured:
        return (
            f"Nothing was measured at any of {counted(course.unmeasured, 'moment')}, up to {course.last}: there is "
            f"nothing to judge{_reason(course)}."
        )
    fired = ", ".join(f"({letter}) at {at}" for letter, at in sorted(course.first_fired.items()))
    count = f"{counted(course.measured, 'measurement')} up to {course.last}.{_gaps(course)}"
    fired = f" First fired: {fired}." if fired else " Nothing fired."
    if course.stop is None:
        return f"{count}{fired} The monitor would not have stopped it."
    return f"{count}{fired} The monitor would have stopped it: {course.stop_reason}{_saving(course)}."


def _gaps(course: CourseSummary) -> str:
    """At how many moments nothing was measured, and what that means for the verdict."""
    if not course.unmeasured:
        return ""
    end = " That includes the last moment, so the verdict above is incomplete." if course.unmeasured_at_end else ""
    return f" At {counted(course.unmeasured, 'moment')} nothing was measured{_reason(course)}.{end}"


def _reason(course: CourseSummary) -> str:
    return f" (reason: {shortened(course.unmeasured_reason, NOTE_LENGTH)})" if course.unmeasured_reason else ""


def partial_blocks(reports: Sequence[tuple[str, DiagnosticReport]]) -> Iterator[RenderableType]:
    """What records that lack sites do and do not prove."""
    for name, report in reports:
        some = {one.letter for one in known().values() if one.from_some_sites}
        read = [r for r in report.readings if r.letter in some]
        sentences = [f"({r.letter}) {_WORDS[r.state]}: {one_line(r.sentence)}" for r in read]
        if any(re.fullmatch(r"[hg]_\d+", key) for key in report.extra):
            yield Text(f"{middle_out(name, NAME_LENGTH)}, from some sites only", style="bold")
            yield from (Padding(Text(sentence), (0, 0, 0, 4)) for sentence in sentences)


_WORDS = {
    State.PASS: "passes",
    State.FIRE: "fires",
    State.NOT_MEASURED: "not measured",
    State.UNDECIDED: "undecided",
    State.REPORTED: "is reported",
}


def _saving(course: CourseSummary) -> str:
    parts = []
    if course.saved_share == 0:
        parts.append("only at the last measurement, which saves nothing")
    elif course.saved_share is not None:
        parts.append(f"saves {100 * course.saved_share:.0f} % of the run")
    if course.saved_seconds:
        parts[-1:] = [f"{parts[-1] if parts else 'saves'} ({_duration(course.saved_seconds)})"]
    if course.accuracy_at_stop is not None and course.best_accuracy_after is not None:
        parts.append(
            f"accuracy {percent(course.accuracy_at_stop)} there, {percent(course.best_accuracy_after)} at best later"
        )
    return "; " + "; ".join(parts) if parts else ""


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
