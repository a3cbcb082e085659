"""The course of training on several architectures: ‖h_L‖, ‖g_L‖ and accuracy over the epochs, methods overlaid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.present.figures.curves import Styles, draw_frozen, draw_series
from walkback.present.figures.style import (
    DARK,
    GREY,
    PRINT,
    colours_of,
    logarithmic,
    new_figure,
    pretty,
    say,
    threshold,
    tidy,
)
from walkback.present.network import Network
from walkback.protocol.diagnostics.gradient_floor import GradientFloor as Floor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth as Growth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS = (("stream", Growth.letter, "‖h_L‖"), ("gradient", Floor.letter, "‖g_L‖"), ("accuracy", "", "accuracy"))


@dataclass(frozen=True)
class Column:
    """One architecture."""

    title: str
    networks: Sequence[Network]
    missing: str = ""
    """What is said where there are no networks."""


def plot(columns: Sequence[Column]) -> Figure:
    """Rows ‖h_L‖, ‖g_L‖, accuracy; a column for each architecture, which says so where it is not on record."""
    figure = new_figure(7.0, 5.8)
    panels = figure.subplots(3, len(columns), squeeze=False, sharex="col")
    styles = colours_of([network for column in columns for network in column.networks])
    for place, column in enumerate(columns):
        for (name, letter, label), axes in zip(_ROWS, panels[:, place], strict=True):
            _panel(axes, column, name, letter, styles)
            if place == 0:
                axes.set_ylabel(label, fontsize=PRINT)
        tidy(panels[0, place], column.title)
        if column.networks:
            panels[-1, place].set_xlabel("epoch", fontsize=PRINT)
    _one_scale(panels, columns)
    _thresholds(panels, columns)
    _legend(figure, panels[0, 0], styles)
    return figure


def _panel(axes: Axes, column: Column, name: str, letter: str, styles: Styles) -> None:
    tidy(axes, "")
    if not any(len(network.moments) > 1 for network in column.networks):
        say(axes, column.missing or "no course on record", 30)
        return
    draw_series(axes, column.networks, name, styles, letter)
    if name == "accuracy":
        draw_frozen(axes, column.networks, styles)
    else:
        logarithmic(axes)


def _drawn(columns: Sequence[Column]) -> list[int]:
    return [i for i, column in enumerate(columns) if any(len(n.moments) > 1 for n in column.networks)]


def _one_scale(panels: Any, columns: Sequence[Column]) -> None:
    """Panels of a row are read side by side, so they have one scale."""
    for row in panels:
        limits = [row[i].get_ylim() for i in _drawn(columns)]
        for i in _drawn(columns):
            row[i].set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _thresholds(panels: Any, columns: Sequence[Column]) -> None:
    for i in _drawn(columns):
        floor = columns[i].networks[0].report.thresholds.g_norm_floor
        low, high = panels[1][i].get_ylim()
        panels[1][i].set_ylim(min(low, floor / 8), high)
        threshold(panels[1][i], floor, "<", f"({Floor.letter}) fires < {floor:g}")


def _legend(figure: Figure, axes: Axes, styles: Styles) -> None:
    handles = [
        axes.plot([], [], color=colour, linestyle=dashes, linewidth=1.7, label=pretty(method))[0]
        for method, (colour, _, dashes) in styles.items()
    ]
    handles.append(axes.plot([], [], color=GREY, linewidth=0.7, label="single seeds")[0])
    handles.append(axes.plot([], [], color=GREY, linestyle=(0, (1, 1.5)), label="blocks frozen")[0])
    fires = f"({Growth.letter}), ({Floor.letter}) first fires"
    cross = axes.plot([], [], "X", color=GREY, markeredgecolor=DARK, markersize=6, label=fires)[0]
    figure.legend(
        handles=[*handles, cross], loc="outside lower center", ncols=min(len(handles) + 1, 4), frameon=False,
        fontsize=PRINT - 0.5,
    )  # fmt: skip
