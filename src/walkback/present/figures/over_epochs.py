"""Training runs over their epochs, one panel per diagnostic, thresholds drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.present.figures.style import COLOURS, MARKERS, new_figure
from walkback.protocol.diagnostics.direction_drift import DirectionDrift as Drift
from walkback.protocol.diagnostics.frozen_margin import FrozenMargin as Margin
from walkback.protocol.diagnostics.gradient_floor import GradientFloor as Floor
from walkback.protocol.diagnostics.residual_growth import ResidualGrowth as Growth
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class History:
    """One run, epoch by epoch; epoch 0 is the untrained network. None where nothing was measured."""

    label: str
    growth: Sequence[float | None]
    gradient: Sequence[float | None]
    stability: Sequence[float | None]
    accuracy: Sequence[float | None]
    frozen_accuracy: Sequence[float | None] = ()


def plot(histories: Sequence[History], thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Four panels over the epochs: growth, gradient at the deepest site, drift, accuracy with its baseline."""
    limits = thresholds or DiagnosticThresholds()
    figure = new_figure(8.4, 5.6)
    panels = figure.subplots(2, 2, sharex=True)
    shown = ("growth", Growth), ("gradient", Floor), ("stability", Drift)
    for axes, (name, one) in zip(panels.flat, shown, strict=False):
        limit, declared = next(iter(one.thresholds.items()))
        _panel(
            axes,
            histories,
            name,
            f"({one.letter}) {one.value_title}",
            getattr(limits, limit),
            log=declared.axis == "log",
        )
    _panel(panels[1, 1], histories, "accuracy", f"({Margin.letter}) accuracy; dashed: blocks frozen", None)
    for column in range(2):
        panels[1, column].set_xlabel("epoch")
    panels[0, 0].legend(frameon=False)
    return figure


def _panel(
    axes: Axes, histories: Sequence[History], name: str, title: str, threshold: float | None, log: bool = False
) -> None:
    for number, history in enumerate(histories):
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.6}
        values = _plottable(getattr(history, name))
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(range(len(values)), values, label=history.label, marker=marker, markersize=4, **style)
        if name == "accuracy" and history.frozen_accuracy:
            frozen = _plottable(history.frozen_accuracy)
            axes.plot(range(len(frozen)), frozen, linestyle="--", **style)
    if log:
        axes.set_yscale("log")
    if threshold is not None:
        axes.axhline(threshold, color="#444444", linestyle=":", linewidth=1.2)
        axes.annotate(
            f"threshold {threshold:g}", (0.99, threshold), xycoords=("axes fraction", "data"), ha="right",
            va="bottom", fontsize=8, color="#444444",
        )  # fmt: skip
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _plottable(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
