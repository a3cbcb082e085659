"""Penalty rescue in three panels: the stream, the gradient, and what accuracy is won, with and without the penalty."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from walkback.present.figures.curves import Styles, draw_series
from walkback.present.figures.style import (
    COLOURS,
    DARK,
    DASHES,
    PRINT,
    logarithmic,
    new_figure,
    pretty,
    say,
    threshold,
    tidy,
)
from walkback.present.network import Network, by_method
from walkback.protocol.diagnostics.gradient_floor import GradientFloor as Floor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth as Growth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SPREAD = 0.18


def plot(networks: Sequence[Network], missing: str = "") -> Figure:
    """‖h_L‖ and ‖g_L‖ over the epochs; final accuracies with the frozen baseline and the margin over it.

    One colour for each method, dashes for the strength of the penalty; `missing` says what is not on record.
    """
    figure = new_figure(7.0, 2.9)
    stream, gradient, accuracy = figure.subplots(1, 3)
    networks = sorted(networks, key=lambda network: (_base(network.method), _strength(network.method)))
    styles = _styles(networks)
    for axes, name, letter, title in (
        (stream, "stream", Growth.letter, "‖h_L‖"),
        (gradient, "gradient", Floor.letter, "‖g_L‖"),
    ):
        _course(axes, networks, name, letter, styles, missing)
        tidy(axes, f"{title}; cross: ({letter}) fires")
    _accuracies(accuracy, networks, styles, missing)
    handles = [
        stream.plot([], [], color=colour, linestyle=dashes, linewidth=1.7, label=pretty(method))[0]
        for method, (colour, _, dashes) in styles.items()
    ]
    if handles:
        handles += accuracy.plot([], [], color=DARK, linewidth=1.4, label="blocks frozen")
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=PRINT - 0.5)
    if missing and networks:
        figure.suptitle(f"not on record: {missing}", fontsize=PRINT - 1.5, color=DARK)
    return figure


def _base(method: str) -> str:
    return method.lower().partition(":")[0].removesuffix("_textbook")


def _strength(method: str) -> float:
    """λ, as the label gives it; 0 where it gives none."""
    found = re.search(r"penalty=([0-9.eE+-]+)", method)
    return float(found[1]) if found else 0.0


def _styles(networks: Sequence[Network]) -> Styles:
    bases: dict[str, list[str]] = {}
    for method in by_method(networks):
        bases.setdefault(_base(method), []).append(method)
    return {
        method: (COLOURS[i % len(COLOURS)], "os^Dv*"[j % 6], DASHES[j % len(DASHES)])
        for i, members in enumerate(bases.values())
        for j, method in enumerate(members)
    }


def _course(
    axes: Axes, networks: Sequence[Network], name: str, letter: str, styles: Styles, missing: str
) -> None:  # fmt: skip
    if not any(len(network.moments) > 1 for network in networks):
        say(axes, f"not on record: {missing}" if missing else "no course on record", 28)
        return
    draw_series(axes, networks, name, styles, letter)
    logarithmic(axes)
    axes.set_xlabel("epoch", fontsize=PRINT)
    if name == "gradient":
        floor = networks[0].report.thresholds.g_norm_floor
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, floor / 8), high)
        threshold(axes, floor, "<", f"fires < {floor:g}")


def _accuracies(axes: Axes, networks: Sequence[Network], styles: Styles, missing: str) -> None:
    known = {m: [n for n in g if n.report.headline_acc is not None] for m, g in by_method(networks).items()}
    shown = {method: members for method, members in known.items() if members}
    if not shown:
        say(axes, f"not on record: {missing}" if missing else "no accuracies on record", 28)
        tidy(axes, "final accuracy, %")
        return
    for place, (method, members) in enumerate(shown.items()):
        _condition(axes, place, members, styles[method][0], styles[method][1])
    axes.set_xlim(-0.6, len(shown) - 0.4)
    axes.set_xticks(range(len(shown)), [_wrapped(method) for method in shown], fontsize=PRINT - 2)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.18 * (high - low))
    axes.set_xlabel("method, λ", fontsize=PRINT)
    tidy(axes, "accuracy, %; top: margin, pp")
    axes.tick_params(axis="x", labelsize=PRINT - 2, length=0)


def _wrapped(method: str) -> str:
    return f"{pretty(_base(method))}\n{_strength(method):g}"


def _condition(axes: Axes, place: int, members: Sequence[Network], colour: str, marker: str) -> None:
    """A mark for each seed, a bar at the mean frozen baseline, the mean margin in points at the top."""
    scores = [100 * (n.report.headline_acc or 0.0) for n in members]
    for number, score in enumerate(scores):
        offset = _SPREAD * (2 * number / (len(scores) - 1) - 1) if len(scores) > 1 else 0.0
        axes.plot(place + offset, score, marker, color=colour, markersize=4.5, markerfacecolor="white")
    frozen = [100 * n.report.frozen_baseline_acc for n in members if n.report.frozen_baseline_acc is not None]
    if frozen:
        axes.plot([place - 0.35, place + 0.35], [mean(frozen)] * 2, color=DARK, linewidth=1.4, solid_capstyle="butt")
        margin = mean(scores) - mean(frozen)
        axes.annotate(
            f"{margin:+.1f}", (place, 0.97), xycoords=("data", "axes fraction"), ha="center", va="top",
            fontsize=PRINT - 1.5, color=DARK,
        )  # fmt: skip
