"""What papers report of a network, beside what the four tests of April 2026 find: for a reader who knows neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from walkback.present.figures.audit import beside, legend, name_methods, panel
from walkback.present.figures.style import DARK, PRINT, colours_of, drawable, new_figure, say, tidy
from walkback.present.network import Network, by_method
from walkback.protocol.records import DiagnosticReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Figures = Callable[[DiagnosticReport], "float | None"]
"""One figure of a network; None where it was not measured."""
TESTS = {
    "a": "(a) how much one block multiplies the hidden state",
    "b": "(b) size of the true gradient at the last block",
    "c": "(c) cosine of the gradients of different batches",
    "d": "(d) points of accuracy above blocks left at random",
}
"""Each test in words."""


def plot(networks: Sequence[Network]) -> Figure:
    """Accuracy and cosine, which papers report, above; the four tests, each with the side that it fires on, below."""
    figure = new_figure(7.0, 5.6)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.0, 1.45))
    above, below = halves
    above.suptitle("What papers report", fontsize=PRINT + 1.5, x=0.01, ha="left", fontweight="bold")
    below.suptitle("What the four tests find", fontsize=PRINT + 1.5, x=0.01, ha="left", fontweight="bold")
    first, second = above.subplots(1, 2)
    _plain(first, "accuracy, %; dash: blocks left at random", networks, _percent, _frozen)
    _plain(second, "cosine with the true gradient, mean over blocks", networks, block_cosine)
    panels = below.subplots(2, 2)
    for axes, (letter, title) in zip(panels.flat, TESTS.items(), strict=True):
        panel(axes, letter, networks, title)
    legend(figure, panels[0, 0], intervals=any(r.interval for n in networks for r in n.report.readings))
    return figure


def _percent(report: DiagnosticReport) -> float | None:
    return None if report.headline_acc is None else 100 * report.headline_acc


def block_cosine(report: DiagnosticReport) -> float | None:
    """The mean of Γ over the sites that blocks read: one number, as papers give it."""
    sites = report.alignment.sites if report.alignment else None
    return sum(sites[:-1]) / (len(sites) - 1) if sites and len(sites) > 1 else None


def _frozen(report: DiagnosticReport) -> float | None:
    return None if report.frozen_baseline_acc is None else 100 * report.frozen_baseline_acc


def _plain(
    axes: Axes, title: str, networks: Sequence[Network], of: Figures, dash: Figures = lambda report: None
) -> None:
    """A figure without a threshold: a mark for each seed, and a dash for what it is held against."""
    methods, colours = by_method(networks), colours_of(networks)
    tidy(axes, title)
    drawn = 0
    for place, (method, members) in enumerate(methods.items()):
        for number, network in enumerate(members):
            value = of(network.report)
            x = place + beside(number, len(members))
            if value is not None and drawable(value):
                axes.plot(x, value, "o", color=colours[method][0], markersize=5.5)
                drawn += 1
            against = dash(network.report)
            if against is not None and drawable(against):
                axes.plot(x, against, "_", color=DARK, markersize=7, markeredgewidth=1.4)
    if not drawn:
        say(axes, "not measured on these networks")
        return
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), max(axes.get_ylim()[1], 0.0))
    axes.grid(axis="y", linewidth=0.4, color="#DDDDDD")
    name_methods(axes, list(methods))
