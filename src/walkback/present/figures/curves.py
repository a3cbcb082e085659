"""A series over the epochs: thin lines for seeds, a thick one for their median, crosses at first firings."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from walkback.present.figures.style import DARK, finite
from walkback.present.network import Network, by_method

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Styles = dict[str, tuple[str, str, Any]]


def draw_series(axes: Axes, networks: Sequence[Network], name: str, styles: Styles, letter: str = "") -> None:
    """The series of every network, by method; `letter` marks where that diagnostic first fires."""
    for method, members in by_method(networks).items():
        colour, _, dashes = styles[method]
        traced = [network for network in members if len(network.moments) > 1]
        for network in traced:
            values = finite(network.series(name))
            axes.plot(network.positions, values, color=colour, linewidth=0.7, alpha=0.45, linestyle=dashes)
            _cross(axes, network, values, letter, colour)
        places, middle = _median([(n.positions, finite(n.series(name))) for n in traced])
        axes.plot(places, middle, color=colour, linewidth=1.7, linestyle=dashes, label=method)


def draw_frozen(axes: Axes, networks: Sequence[Network], styles: Styles) -> None:
    """The accuracies of the matched frozen baselines, dotted."""
    for method, members in by_method(networks).items():
        frozen = [(n.positions, finite(n.frozen_accuracies)) for n in members if n.frozen_accuracies]
        places, middle = _median(frozen)
        axes.plot(places, middle, color=styles[method][0], linewidth=1.1, linestyle=(0, (1, 1.5)), label="_frozen")


def _median(lines: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[list[float], list[float]]:
    """The median over the lines at every place that all of them reach."""
    tables = [dict(zip(places, values, strict=True)) for places, values in lines]
    shared = sorted(set.intersection(*(set(table) for table in tables))) if tables else []
    return list(shared), [median(table[at] for table in tables) for at in shared]


def _cross(axes: Axes, network: Network, values: Sequence[float], letter: str, colour: str) -> None:
    at = network.first_fired.get(letter)
    if at is None or values[at] != values[at]:
        return
    axes.plot(
        network.positions[at], values[at], marker="X", markersize=6, color=colour, markeredgecolor=DARK,
        markeredgewidth=0.6, linestyle="", zorder=4, label="_fires",
    )  # fmt: skip
