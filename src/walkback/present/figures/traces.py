"""Traces of runs as a figure: what is watched and the accuracy over time, thresholds drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.present.figures.style import COLOURS, MARKERS, new_figure
from walkback.present.thinning import kept
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Scalar
from walkback.protocol.diagnostics.known import known
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.watch.trail import ACCURACY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from walkback.present.traces import Traced

_MOST_MARKERS = 40
_MOST_POINTS = 4000
_ACROSS = 2
_DARK = "#444444"


@dataclass(frozen=True)
class _Shown:
    name: str
    title: str
    letter: str = ""
    """Whose firings the panel must not lose."""
    threshold: str = ""
    log: bool = False
    always: bool = True
    """Whether it has its place where nothing was measured, too."""


def _shown() -> list[_Shown]:
    """What is looked at while a run goes on, then the other curves of the same diagnostics, and the accuracy."""
    watched = [one for one in known().values() if any(scalar.live for scalar in one.shown_scalars())]
    pairs = [(one, scalar) for one in watched for scalar in one.shown_scalars() if scalar.timed]
    found = [_of(one, scalar) for one, scalar in sorted(pairs, key=lambda pair: not pair[1].live)]
    return [*found, _Shown(ACCURACY, ACCURACY)]


def _of(one: type[Diagnostic], scalar: Scalar) -> _Shown:
    log = scalar.axis == "log"
    if scalar.name != one.curve_name():
        return _Shown(scalar.name, scalar.titled, log=log, always=one.listed == "always")
    title = f"({one.letter}) {scalar.titled}"
    return _Shown(scalar.name, title, one.letter, scalar.threshold, log, one.listed == "always")


def _known(trace: Traced, panel: _Shown) -> bool:
    return any(value is not None for value in trace.series(panel.name))


def plot(traces: Sequence[Traced], thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Panels over the epochs (where there are none: the steps); a cross marks where a run would stop."""
    limits = (thresholds or DiagnosticThresholds()).model_extra or {}
    # What no diagnostic asks to be listed by, and no trace holds, has no panel.
    shown = [panel for panel in _shown() if panel.always or any(_known(trace, panel) for trace in traces)]
    rows = math.ceil(len(shown) / _ACROSS)
    figure = new_figure(9.6, 3.2 * rows)
    panels = figure.subplots(rows, _ACROSS, sharex=True, squeeze=False)
    for axes, panel in zip(panels.flat, shown, strict=False):
        _panel(axes, traces, panel, limits.get(panel.threshold))
    for axes in panels.flat[len(shown) :]:
        axes.axis("off")
    for axes in panels[-1]:
        axes.set_xlabel(" / ".join(dict.fromkeys(_unit(trace) for trace in traces)))
    _legend(figure, panels[0, 0], stops=any(trace.course.stop is not None for trace in traces))
    return figure


def _legend(figure: Any, axes: Any, stops: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if stops:
        (cross,) = axes.plot([], [], color="white", markeredgecolor=_DARK, marker="X", markersize=9, linestyle="")
        handles, labels = [*handles, cross], [*labels, "the monitor would stop here"]
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), frameon=False, fontsize=8)


def _unit(trace: Traced) -> str:
    return "epoch" if trace.trail.counts_epochs else "step"


def _panel(axes: Axes, traces: Sequence[Traced], shown: _Shown, threshold: float | None) -> None:
    for number, trace in enumerate(traces):
        _line(axes, trace, shown, number)
    if shown.log:
        axes.set_yscale("log")
    if threshold is not None:
        axes.axhline(threshold, color=_DARK, linestyle=":", linewidth=1.2)
        axes.annotate(
            f"threshold {threshold:g}", (0.99, threshold), xycoords=("axes fraction", "data"), ha="right",
            va="bottom", fontsize=8, color=_DARK,
        )  # fmt: skip
    axes.set_title(shown.title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Axes, trace: Traced, panel: _Shown, number: int) -> None:
    values, places = trace.series(panel.name), trace.trail.positions()
    stopped = [] if trace.trail.stop is None else [trace.trail.stop[0]]
    shown = kept(values, _MOST_POINTS, trace.trail.fired(panel.letter), stopped)
    known = [(places[i], y) for i in shown if (y := values[i]) is not None and math.isfinite(y)]
    if not known:
        return
    xs, ys = zip(*known, strict=True)
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)] if len(xs) <= _MOST_MARKERS else ""
    axes.plot(xs, ys, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=trace.name)
    stop = trace.course.stop.position if trace.course.stop is not None else None
    at_stop = [(x, y) for x, y in known if x == stop]
    if at_stop:
        axes.plot(*at_stop[-1], color=colour, marker="X", markersize=9, markeredgecolor=_DARK, linestyle="", zorder=5)
