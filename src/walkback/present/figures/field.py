"""The field at a glance: what each method gains over random blocks, where its credit points, and what is broken.

Narrow and tall, so that it can be read on a phone. A cell says in words and shapes what it says in colour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from walkback.present.figures.style import DARK, FIRE, GREY, PRINT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, HEAD, FOOT = 4.0, 0.215, 0.5, 1.12
"""Inches."""
NAME_SHARE = 1.55
"""How much wider than a cell the names of methods are."""
DARKEST = (0.0, 0.447, 0.698)
EMPTY = "#F0F0F0"


class Cell(NamedTuple):
    """One method on one network."""

    gain: float | None
    """Points of test accuracy above the frozen arm; None where there is no record."""
    share: float | None
    """Of what BP gains over the frozen arm, 0 to 1."""
    gamma: float | None
    """Γ; None where the method has no credit."""
    failed: int = 0
    """How many of its networks the panel calls broken."""
    of: int = 0
    """How many networks the panel speaks of."""
    words: str = ""
    """What stands in place of a gain: that it is not defined, or not run."""


class Field(NamedTuple):
    """What is drawn."""

    networks: Sequence[str]
    methods: Sequence[str]
    cells: Mapping[tuple[str, str], Cell]
    """By method, then network."""


def plot(field: Field) -> Figure:
    """A row for each method, a column for each network, and the key below."""
    rows = len(field.methods)
    height = HEAD + ROW * rows + FOOT
    figure = new_figure(WIDTH, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    columns = NAME_SHARE + len(field.networks)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows + FOOT / ROW, -HEAD / ROW)
    axes.axis("off")
    for number, network in enumerate(field.networks):
        centre = NAME_SHARE + number + 0.5
        axes.text(centre, -0.25, network, ha="center", va="bottom", fontsize=PRINT - 1, color=DARK, linespacing=1.05)
    for row, method in enumerate(field.methods):
        axes.text(NAME_SHARE - 0.06, row + 0.5, method, ha="right", va="center", fontsize=PRINT - 1, color=DARK)
        for number, network in enumerate(field.networks):
            _cell(axes, NAME_SHARE + number, row, field.cells[method, network])
    _key(axes, rows + 0.55)
    return figure


def _cell(axes: Axes, x: float, y: float, cell: Cell) -> None:
    from matplotlib.patches import Rectangle

    share = min(max(cell.share or 0.0, 0.0), 1.0)
    colour = EMPTY if cell.gain is None else tuple(1 - 0.62 * share * (1 - value) for value in DARKEST)
    axes.add_patch(Rectangle((x + 0.02, y + 0.05), 0.96, 0.9, facecolor=colour, linewidth=0))
    if cell.gain is None:
        axes.text(x + 0.5, y + 0.5, cell.words, ha="center", va="center", fontsize=PRINT - 2.5, color="#666666")
        return
    axes.text(x + 0.44, y + 0.52, f"{cell.gain:+.0f}", ha="right", va="center", fontsize=PRINT - 0.5, color=DARK)
    if cell.gamma is not None:
        _needle(axes, x + 0.5, y + 0.5, cell.gamma)
    if cell.failed:
        _broken(axes, x + 0.86, y + 0.5, whole=cell.failed == cell.of)


def _needle(axes: Axes, x: float, y: float, gamma: float) -> None:
    """An arrow at the angle between credit and gradient: flat to the right is the gradient itself, up is unrelated."""
    angle, length = math.acos(min(max(gamma, -1.0), 1.0)), 0.1
    # A cell is wider than high: in inches both steps are to have one length.
    across = length * (WIDTH / axes.get_xlim()[1])
    dx, dy = length * math.cos(angle), -across * math.sin(angle) / ROW
    centre = x + 0.13
    axes.annotate(
        "", (centre + dx, y + dy), xytext=(centre - dx, y - dy),
        arrowprops={
            "arrowstyle": "-|>", "color": DARK, "linewidth": 0.8, "mutation_scale": 5, "shrinkA": 0, "shrinkB": 0,
        },
    )  # fmt: skip


def _broken(axes: Axes, x: float, y: float, *, whole: bool) -> None:
    axes.text(
        x, y + 0.02, "✗" if whole else "(✗)", ha="center", va="center", fontsize=PRINT - (0.5 if whole else 2.0),
        color=FIRE, fontweight="bold", fontfamily="DejaVu Sans",
    )  # fmt: skip


def _key(axes: Axes, y: float) -> None:
    """What the marks mean, in words."""
    lines = (
        ("+12", "points above a network whose blocks stay random;"),
        ("", "the darker, the more of what backpropagation gains"),
        ("→", "what layers are told points along the true gradient;"),
        ("", "↑ it has nothing to do with it; no arrow: none is told"),
        ("✗", "broken in every run, (✗) in some of them"),
    )
    for number, (mark, words) in enumerate(lines):
        place, colour = y + 0.92 * number, FIRE if mark == "✗" else DARK
        axes.text(
            0.42, place, mark, ha="right", va="center", fontsize=PRINT - 0.5, color=colour, fontfamily="DejaVu Sans"
        )
        axes.text(0.5, place, words, ha="left", va="center", fontsize=PRINT - 1, color=DARK if mark else "#555555")
    axes.plot([0.05, axes.get_xlim()[1] - 0.05], [y - 0.4, y - 0.4], color=GREY, linewidth=0.5)
