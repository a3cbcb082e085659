"""How often each rule is right on networks of known truth: faults found, healthy networks flagged, ROC curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from walkback.present.figures.style import COLOURS, DARK, GREY, MARKERS, PRINT, new_figure, say, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NEARLY_PERFECT = 0.99
"""Curves with this area or more lie on one another in the corner; they are drawn, and not named."""


class Point(NamedTuple):
    """A share, and its one-sided bound."""

    share: float
    bound: float


class Scores(NamedTuple):
    """What is plotted."""

    title: str
    rules: Sequence[str]
    found: Mapping[str, Mapping[str, Point]]
    """By fault, then by rule."""
    flagged: Mapping[str, Mapping[str, Point]]
    """By group of healthy networks, then by rule."""
    curves: Mapping[str, Sequence[tuple[float, float]]]
    """The ROC curve of each quantity over the faults that it is meant for."""


def plot(scores: Scores) -> Figure:
    """Faults on the left, healthy networks and ROC curves on the right."""
    figure = new_figure(8.4, 7.2)
    grid: Any = figure.add_gridspec(2, 2, width_ratios=(1.15, 1.0), height_ratios=(1.0, 1.1))
    _dots(figure.add_subplot(grid[:, 0]), f"Faults found, {scores.title}", scores.found, scores.rules, key=True)
    _dots(figure.add_subplot(grid[0, 1]), "Healthy networks flagged", scores.flagged, scores.rules)
    _curves(figure.add_subplot(grid[1, 1]), scores.curves)
    return figure


def _dots(
    axes: Axes, title: str, groups: Mapping[str, Mapping[str, Point]], rules: Sequence[str], *, key: bool = False
) -> None:
    """A row per group: the share of each rule, and a line to its bound."""
    tidy(axes, title)
    if not groups:
        say(axes, "no networks")
        return
    for number, rule in enumerate(rules):
        colour, shift = COLOURS[number % len(COLOURS)], 0.22 * (number - (len(rules) - 1) / 2)
        places = [row + shift for row in range(len(groups))]
        points = [group[rule] for group in groups.values()]
        for place, point in zip(places, points, strict=True):
            axes.plot([100 * point.share, 100 * point.bound], [place, place], color=colour, linewidth=1.0)
        shares = [100 * point.share for point in points]
        axes.plot(shares, places, MARKERS[number % len(MARKERS)], color=colour, markersize=3.5, label=rule)
    axes.set_yticks(range(len(groups)), [name.replace("_", " ") for name in groups], fontsize=PRINT - 1)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(-3, 103)
    axes.set_xlabel("%; the line leads to the one-sided 95 % bound", fontsize=PRINT - 1)
    axes.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    if key:
        axes.legend(fontsize=PRINT - 1.5, frameon=False, loc="upper center", bbox_to_anchor=(0.4, -0.08))


def _curves(axes: Axes, curves: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    tidy(axes, "ROC over the faults it is meant for; area")
    if not curves:
        say(axes, "nothing to compare")
        return
    told = {name: points for name, points in curves.items() if _area(points) < NEARLY_PERFECT}
    for points in (points for name, points in curves.items() if name not in told):
        axes.plot(*_in_per_cent(points), color=GREY, linewidth=0.8)
    for number, (name, points) in enumerate(told.items()):
        axes.plot(
            *_in_per_cent(points), color=COLOURS[number % len(COLOURS)], linewidth=1.3,
            linestyle=("-", "--", ":")[number // len(COLOURS) % 3], label=f"{name}, {_area(points):.2f}",
        )  # fmt: skip
    if len(told) < len(curves):
        axes.plot([], [], color=GREY, linewidth=0.8, label=f"{len(curves) - len(told)} others, ≥ {NEARLY_PERFECT:g}")
    axes.plot([0, 100], [0, 100], color=DARK, linewidth=0.6, linestyle=":")
    axes.set_xlabel("healthy networks flagged, %", fontsize=PRINT - 1)
    axes.set_ylabel("faults found, %", fontsize=PRINT - 1)
    axes.legend(
        fontsize=PRINT - 2.5,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.45, -0.16),
        ncols=2,
        columnspacing=1.2,
    )


def _in_per_cent(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [100 * x for x, _ in points], [100 * y for _, y in points]


def _area(points: Sequence[tuple[float, float]]) -> float:
    """Under the curve, by trapezoids."""
    return sum((x - before) * (y + below) / 2 for (before, below), (x, y) in pairwise(points))
