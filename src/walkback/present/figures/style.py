"""What all figures share: print, colours that anyone can tell apart, thresholds, gaps, and how a file is made."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from walkback.errors import InputError
from walkback.extras import naming_extras
from walkback.present.method_names import shown_name
from walkback.present.network import Network, by_method
from walkback.present.plain import middle_out
from walkback.protocol.schema import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9", "#4D4D4D")
"""Okabe and Ito's palette, its yellow darkened: told apart by readers with any kind of colour vision."""
MARKERS = "os^Dv*"
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
DARK, GREY, FIRE = "#333333", "#8A8F96", "#B3261E"
PRINT = 8.0
"""Points: what is read at the width of a column."""
FORMATS = ("png", "svg", "pdf")


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches whose panels share its room."""
    # Not pyplot: it keeps every figure alive and wants a display.
    with naming_extras():
        from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def pretty(label: str) -> str:
    """A method as a figure names it; what is none of the zoo's is cut where it is long."""
    return middle_out(shown_name(label), 40)


def colours_of(networks: Sequence[Network]) -> dict[str, tuple[str, str, Any]]:
    """A colour, a marker and dashes for each method; no two of the first six share a colour."""
    names = list(by_method(networks))
    return {
        name: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[(i // len(COLOURS) + i) % len(DASHES)])
        for i, name in enumerate(names)
    }


def tidy(axes: Axes, title: str) -> None:
    """A title at the left, small print, no box."""
    axes.set_title(title, fontsize=PRINT + 0.5, loc="left")
    axes.tick_params(labelsize=PRINT - 1, which="both")
    axes.spines[["top", "right"]].set_visible(False)


def threshold(
    axes: Axes, value: float, comparison: str, words: str, *, vertical: bool = False, at_left: bool = False
) -> None:
    """The threshold as a dashed line with its number, and the side that fires hatched."""
    line, span = (axes.axvline, axes.axvspan) if vertical else (axes.axhline, axes.axhspan)
    low, high = axes.get_xlim() if vertical else axes.get_ylim()
    ends = (value, high) if comparison == ">" else (low, value)
    span(*ends, facecolor="none", edgecolor=FIRE, alpha=0.22, hatch="////", linewidth=0, zorder=0)
    line(value, color=FIRE, linestyle="--", linewidth=1.0, zorder=1)
    (axes.set_xlim if vertical else axes.set_ylim)(low, high)
    if not vertical:
        x, side, inwards = (0.0, "left", 2) if at_left else (1.0, "right", -2)
        axes.annotate(
            words, (x, value), xycoords=("axes fraction", "data"), xytext=(inwards, 2), textcoords="offset points",
            ha=side, va="bottom", fontsize=PRINT - 1.5, color=FIRE, zorder=1.9,
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.6},
        )  # fmt: skip


def say(axes: Axes, words: str, width: int = 34) -> None:
    """What stands in a panel that has nothing to draw."""
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_color("#CCCCCC")
        side.set_linestyle(":")
    text = "\n".join(line for part in words.split("\n") for line in textwrap.wrap(part, width) or [""])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=PRINT - 1.5, color=DARK)


def drawable(value: float | None) -> bool:
    """Whether a value has a place on an axis; what lies further out overflows an axis with its margins."""
    return value is not None and math.isfinite(value) and (value == 0 or 1e-250 <= abs(value) <= 1e250)


def finite(values: Sequence[float | None]) -> list[float]:
    """The values with NaN, which is not drawn, where there is none that could be."""
    return [value if value is not None and drawable(value) else math.nan for value in values]


def logarithmic(axes: Axes) -> None:
    """A logarithmic axis, if anything that was drawn has a place on one."""
    drawn = [float(value) for line in axes.get_lines() for value in np.ravel(np.asarray(line.get_ydata(), float))]
    if any(value > 0 for value in drawn):
        axes.set_yscale("log")


def writable(path: str | Path) -> Path:
    """The path, if its ending names a format; drawing can take a while, so it is asked first."""
    target = Path(path)
    if target.suffix.removeprefix(".").lower() not in FORMATS:
        raise InputError(f"cannot write the figure {target}: expected a name that ends in .png, .svg or .pdf.")
    return target


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure whole or not at all; the ending of the name says in which format."""
    with naming_extras():
        import matplotlib

    target = writable(path)
    kind = target.suffix.removeprefix(".").lower()
    buffer = io.BytesIO()
    # Without dates and random ids, equal figures are equal files.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with matplotlib.rc_context({"svg.hashsalt": "walkback", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return write_whole(target, buffer.getvalue())
