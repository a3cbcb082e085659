"""Networks along their depth: ‖h‖, ‖g‖ and Γ at every site, with the gradient floor and the null of Γ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from walkback.present.figures.curves import Styles
from walkback.present.figures.style import (
    GREY,
    PRINT,
    colours_of,
    finite,
    logarithmic,
    new_figure,
    pretty,
    say,
    threshold,
    tidy,
)
from walkback.present.in_panel import label
from walkback.present.network import Network
from walkback.protocol.diagnostics.gradient_floor import GradientFloor as Floor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_MARKED = 40


def plot(networks: Sequence[Network]) -> Figure:
    """Three panels; a line for each network, one colour and marker for each method."""
    figure = new_figure(7.0, 2.9)
    stream, gradient, alignment = figure.subplots(1, 3)
    styles = colours_of(networks)
    _lines(stream, networks, styles, [n.report.residual_norms for n in networks], log=True)
    _lines(gradient, networks, styles, [n.report.bp_grad_norms for n in networks], log=True)
    _alignment(alignment, networks, styles)
    if any(n.report.bp_grad_norms for n in networks):
        floor = networks[0].report.thresholds.g_norm_floor
        low, high = gradient.get_ylim()
        gradient.set_ylim(min(low, floor / 8), high)
        threshold(gradient, floor, "<", f"{label(networks[0].report, Floor.letter)} fires < {floor:g}")
    for axes, title in ((stream, "‖h‖"), (gradient, "‖g‖"), (alignment, "Γ; grey: null ± 2 sd")):
        tidy(axes, title)
        axes.set_xlabel("site", fontsize=PRINT)
    handles = [
        stream.plot([], [], color=colour, marker=marker, linestyle=dashes, markersize=4, label=pretty(method))[0]
        for method, (colour, marker, dashes) in styles.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=PRINT - 0.5)
    return figure


def _lines(
    axes: Axes, networks: Sequence[Network], styles: Styles, series: Sequence[Sequence[float] | None], log: bool
) -> None:
    drawn = False
    for network, values in zip(networks, series, strict=True):
        if not values:
            continue
        drawn = True
        colour, marker, dashes = styles[network.method]
        axes.plot(
            range(len(values)), finite(values), color=colour, linestyle=dashes, linewidth=1.2, markersize=3.5,
            marker=marker if len(values) <= _MOST_MARKED else "",
        )  # fmt: skip
    if not drawn:
        say(axes, "not measured")
        return
    if log:
        logarithmic(axes)
    if max(len(values) for values in series if values) <= 12:
        axes.set_xticks(range(max(len(values) for values in series if values)))


def _alignment(axes: Axes, networks: Sequence[Network], styles: Styles) -> None:
    known = [n.report.alignment.sites if n.report.alignment else None for n in networks]
    _lines(axes, networks, styles, known, log=False)
    if not any(known):
        return
    axes.axhline(0, color=GREY, linewidth=0.8)
    for network in networks:
        alignment = network.report.alignment
        null = alignment.null if alignment else None
        if null is None:
            continue
        pairs = [(m - 2 * s, m + 2 * s) for m, s in zip(null.site_means, null.site_sds, strict=True)]
        if all(math.isfinite(low) and math.isfinite(high) for low, high in pairs):
            lows, highs = zip(*pairs, strict=True)
            axes.fill_between(range(len(pairs)), lows, highs, color=GREY, alpha=0.3, linewidth=0)
