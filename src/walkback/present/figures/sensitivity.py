"""Every threshold swept: how many networks fire and are walked back at each, and where no verdict changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from walkback.errors import RecordError
from walkback.present.figures.style import COLOURS, DARK, GREY, PRINT, new_figure, say, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = (
    ("a", "(a) growth of one block above", "log"),
    ("b", "(b) ‖g_L‖ below", "log"),
    ("c", "(c) cosine above", "linear"),
    ("c by drift share", "(c) by drift share ρ above", "log"),
    ("d", "(d) margin below, pp", "linear"),
)


def draw(result: Mapping[str, Any]) -> Figure:
    """A panel for each sweep of the study's JSON; the sixth holds the key."""
    try:
        return _drawn(result)
    except (KeyError, TypeError, IndexError) as error:
        raise RecordError(
            f"this is not the answer of the sensitivity study: {type(error).__name__} {error}. "
            "Make it with: walkback lab study sensitivity"
        ) from None


def _drawn(result: Mapping[str, Any]) -> Figure:
    figure = new_figure(7.0, 4.4)
    panels = figure.subplots(2, 3)
    for axes, (key, title, scale) in zip(panels.flat, _PANELS, strict=False):
        _panel(axes, result, key, title, scale)
    for row in panels:
        row[0].set_ylabel("networks", fontsize=PRINT)
    _key(panels[1, 2], result)
    return figure


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
