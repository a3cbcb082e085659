"""Every threshold swept: how many networks fire and are walked back at each, and where no verdict changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from walkback.errors import RecordError
from walkback.present.figures.style import COLOURS, DARK, GREY, PRINT, new_figure, say, tidy
from walkback.protocol.diagnostics.known import by_letter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
_ACROSS = 3


def plot(result: Mapping[str, Any]) -> Figure:
    """A panel for each sweep of the study's JSON; the last holds the key."""
    try:
        return _drawn(result)
    except (KeyError, TypeError, IndexError) as error:
        raise RecordError(
            f"this is not the answer of the sensitivity study: {type(error).__name__} {error}. "
            "Make it with: walkback lab study sensitivity"
        ) from None


def _drawn(result: Mapping[str, Any]) -> Figure:
    keys = list(result["sweeps"])
    rows = math.ceil((len(keys) + 1) / _ACROSS)
    figure = new_figure(7.0, 2.2 * rows)
    panels = figure.subplots(rows, _ACROSS, squeeze=False)
    for axes, key in zip(panels.flat, keys, strict=False):
        _panel(axes, result, key, *_titled(key, result["sweeps"][key]))
    for row in panels:
        row[0].set_ylabel("networks", fontsize=PRINT)
    for axes in panels.flat[len(keys) :]:
        axes.axis("off")
    _key(panels.flat[-1], result)
    return figure


def _titled(key: str, sweep: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What was swept, on which side of it a network fires, and the scale of the values that were tried.

    A sweep is named by the letter of its diagnostic, with words behind it where that has several thresholds.
    """
    letter, _, which = key.partition(" ")
    diagnostic = by_letter(letter)
    if diagnostic is None or not diagnostic.thresholds:
        return key, "linear"
    named = [each for each in diagnostic.thresholds.values() if which and which in each.short + each.label]
    declared = (named or list(diagnostic.thresholds.values()))[0]
    side = "above" if declared.fires == ">" else "below"
    unit = f", {declared.unit}" if declared.unit not in ("", "×") else ""
    return f"({letter}) {declared.short or declared.label} {side}{unit}", _scale([p["threshold"] for p in sweep])


def _scale(values: Sequence[float]) -> str:
    """Logarithmic where neighbours have one ratio."""
    positive = [value for value in values if value > 0]
    ratios = [after / before for before, after in pairwise(positive)]
    even = len(positive) == len(values) > 2 and max(ratios) < 1.05 * min(ratios)
    return "log" if even else "linear"


def _panel(axes: Axes, result: Mapping[str, Any], key: str, title: str, scale: str) -> None:
    tidy(axes, title)
    sweep = result["sweeps"][key]
    known = result["diagnostics"].get(key)
    if not any(point["fired"] for point in sweep) and (known is None or not known["measured"]):
        say(axes, "not measured on these networks")
        return
    axes.set_xscale(scale)
    places = [point["threshold"] for point in sweep]
    # Straight lines: between two thresholds that were tried, nobody knows where the step is.
    axes.plot(places, [point["walked_back"] for point in sweep], color=COLOURS[1], linewidth=1.8)
    axes.plot(places, [point["fired"] for point in sweep], color=COLOURS[0], linewidth=1.3, linestyle=(0, (4, 1.5)))
    axes.set_xlim(places[0], places[-1])
    axes.set_ylim(-0.6, result["networks"] + 1.0)
    axes.locator_params(axis="y", integer=True)
    if known is not None:
        _range(axes, known["same_verdicts"], places)
        axes.axvline(known["threshold"], color=DARK, linestyle=":", linewidth=1.2)
        axes.annotate(
            f"{known['threshold']:g}", (known["threshold"], 1.0), xycoords=("data", "axes fraction"), xytext=(2, -2),
            textcoords="offset points", fontsize=PRINT - 1.5, color=DARK, va="top",
        )  # fmt: skip


def _range(axes: Axes, same: Mapping[str, Any], places: list[float]) -> None:
    low = places[0] if same["low"] is None else max(same["low"], places[0])
    high = places[-1] if same["high"] is None else min(same["high"], places[-1])
    if low < high:
        axes.axvspan(low, high, color=GREY, alpha=0.25, linewidth=0, zorder=0)


def _key(axes: Axes, result: Mapping[str, Any]) -> None:
    axes.axis("off")
    handles = [
        axes.plot([], [], color=COLOURS[1], linewidth=1.8, label="walked back, by any diagnostic")[0],
        axes.plot([], [], color=COLOURS[0], linewidth=1.3, linestyle=(0, (4, 1.5)), label="this one fires")[0],
        axes.plot([], [], color=DARK, linestyle=":", label="published threshold")[0],
        axes.plot([], [], color=GREY, alpha=0.35, linewidth=8, label="no verdict changes")[0],
    ]
    title = f"{result['networks']} networks,\n{result['healthy']} healthy by their own verdict"
    axes.legend(handles=handles, loc="center", frameon=False, fontsize=PRINT, title=title, title_fontsize=PRINT)
