"""Traces of runs as a figure: the stream, the gradient, the growth and the accuracy over time, thresholds drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from walkback.present.figures.style import COLOURS, MARKERS, new_figure
from walkback.present.thinning import kept
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from walkback.present.traces import Traced

_MOST_MARKERS = 40
_MOST_POINTS = 4000
_LETTERS = {"gradient": "b", "growth": "a"}
"""Whose firings a panel must not lose."""
_DARK = "#444444"


def draw(traces: Sequence[Traced], thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Four panels over the epochs (where there are none: the steps); a cross marks where a run would stop."""
    limits = thresholds or DiagnosticThresholds()
    figure = new_figure(9.6, 6.4)
    panels = figure.subplots(2, 2, sharex=True)
    rows: list[tuple[str, str, float | None, bool]] = [
        ("stream", "median ‖h‖ at the deepest site", None, True),
        ("gradient", "(b) median ‖g‖ at the deepest site", limits.g_norm_floor, True),
        ("growth", "(a) largest growth of a block", limits.h_norm_explosion_ratio, True),
        ("accuracy", "accuracy", None, False),
    ]
    for axes, (name, title, threshold, log) in zip(panels.flat, rows, strict=True):
        _panel(axes, traces, name, title, threshold, log)
    for axes in panels[1]:
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


def _panel(axes: Axes, traces: Sequence[Traced], name: str, title: str, threshold: float | None, log: bool) -> None:
    for number, trace in enumerate(traces):
        _line(axes, trace, name, number)
    if log:
        axes.set_yscale("log")
    if threshold is not None:
        axes.axhline(threshold, color=_DARK, linestyle=":", linewidth=1.2)
        axes.annotate(
            f"threshold {threshold:g}", (0.99, threshold), xycoords=("axes fraction", "data"), ha="right",
            va="bottom", fontsize=8, color=_DARK,
        )  # fmt: skip
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Axes, trace: Traced, name: str, number: int) -> None:
    values, places = trace.series(name), trace.trail.positions()
    stopped = [] if trace.trail.stop is None else [trace.trail.stop[0]]
    shown = kept(values, _MOST_POINTS, trace.trail.fired(_LETTERS.get(name, "")), stopped)
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
