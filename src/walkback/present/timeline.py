"""Figures over the epochs as curves: one per network, thresholds drawn, the first firing of each marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from walkback.present import in_panel
from walkback.present.in_panel import in_its_words, label
from walkback.present.network import Network, by_method
from walkback.present.numbers import percent, written
from walkback.present.scale import Scale, Tick, linear_scale, log_scale
from walkback.present.thinning import kept
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import LEAST_SPAN, Scalar
from walkback.protocol.diagnostics.known import known
from walkback.protocol.records import State
from walkback.watch.trail import ACCURACY

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 350, 12, 168
COLOURS, DASHES = 6, 4
"""How many of each the style sheet has; a method is told apart by both, and by its name where one points."""
_MOST_POINTS = 6000
_FEWEST = 24


@dataclass(frozen=True)
class Curve:
    """One network's line: its segments, the epochs and figures of its points in order, and where it first fires."""

    network: int
    method: int
    name: str
    path: str
    at: str
    values: str
    dashed: bool = False
    mark: tuple[float, float, str] | None = None


@dataclass(frozen=True)
class Timeline:
    """A titled panel, laid out in the picture's own units."""

    title: str
    letter: str
    """Of the diagnostic whose first firings are marked; empty where there is none."""
    label: str
    """What the deciding panel calls it."""
    curves: tuple[Curve, ...]
    threshold: float | None
    fires: tuple[float, float] | None
    """Top and height of the side that fires."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    unit: str
    """What the horizontal axis counts."""


@dataclass(frozen=True)
class _Panel:
    name: str
    title: str
    letter: str = ""
    threshold: str = ""
    comparison: str = ""
    logarithmic: bool = False
    least_span: float = LEAST_SPAN


_ACCURACY = "Accuracy (dotted: blocks frozen)"


def _panels() -> list[_Panel]:
    """One for each series over time: the scalars of the diagnostics, in their order, and the accuracy."""
    found: list[_Panel] = []
    for one in known().values():
        found += [_panel(one, scalar) for scalar in one.shown_scalars() if scalar.timed]
        if one.curve_name() == ACCURACY:
            found.append(_Panel(ACCURACY, _ACCURACY, one.letter))
    marked = any(panel.name == ACCURACY for panel in found)
    return found if marked else [*found, _Panel(ACCURACY, _ACCURACY)]


def _panel(one: type[Diagnostic], scalar: Scalar) -> _Panel:
    log = scalar.axis == "log"
    if scalar.name != one.curve_name():
        return _Panel(scalar.name, scalar.titled, logarithmic=log, least_span=scalar.least_span)
    fires = one.thresholds[scalar.threshold].fires if scalar.threshold else ""
    return _Panel(
        scalar.name, f"({one.letter}) {scalar.titled}", one.letter, scalar.threshold, fires, log, scalar.least_span
    )


def timelines(networks: Sequence[Network]) -> list[Timeline]:
    """The panels for which some network has a course; none where no network has one."""
    traced = [network for network in networks if len(network.moments) > 1]
    if not traced:
        return []
    made = (_timeline(panel, networks) for panel in _panels())
    return [panel for panel in made if panel is not None]


def method_numbers(networks: Sequence[Network]) -> dict[str, int]:
    """The number that a method's colour and dashes go by."""
    return {method: number for number, method in enumerate(by_method(networks))}


def _timeline(panel: _Panel, networks: Sequence[Network]) -> Timeline | None:
    series = [network.series(panel.name) if len(network.moments) > 1 else [] for network in networks]
    values = [v for line in series for v in line if v is not None]
    if not values:
        return None
    # Each network may have thresholds of its own; one line is drawn where they agree.
    limits = (in_panel.limits(n.report).get(panel.threshold) for n in networks)
    levels = set(limits) if panel.threshold else set()
    level = levels.pop() if len(levels) == 1 else None
    if panel.name == ACCURACY:
        values += [v for network in networks for v in network.frozen_accuracies if v is not None]
    scale = _scale(panel, values, level)
    span = _span(networks)
    most = max(_FEWEST, _MOST_POINTS // max(len(networks), 1) // len(_panels()))
    numbers = method_numbers(networks)
    curves = [
        curve
        for number, (network, line) in enumerate(zip(networks, series, strict=True))
        for curve in _curves(panel, network, line, number, numbers[network.method], scale, span, most)
    ]
    threshold = _down(scale.share(level)) if level is not None else None
    return Timeline(
        title=in_its_words(networks[0].report, panel.title),
        letter=panel.letter,
        label=label(networks[0].report, panel.letter) if panel.letter else "",
        curves=tuple(curves),
        threshold=threshold,
        fires=_fires(panel.comparison, threshold),
        x_ticks=tuple(_x_ticks(span)),
        y_ticks=tuple(Tick(_down(t.share), t.label) for t in scale.ticks(5)),
        unit=_unit(networks),
    )


def _scale(panel: _Panel, values: Sequence[float], level: float | None) -> Scale:
    limits = [] if level is None else [level]
    if panel.logarithmic:
        beyond = [level * 5 if panel.comparison == ">" else level / 5] if level else []
        return log_scale([*values, *limits, *beyond])
    if panel.name == ACCURACY:
        return linear_scale([*values, 0.0], LEAST_SPAN)
    return linear_scale([*values, *limits, 0.0], panel.least_span)


def _span(networks: Sequence[Network]) -> tuple[float, float]:
    places = [at for network in networks for at in network.positions]
    return min(places), max(places)


def _across(at: float, span: tuple[float, float]) -> float:
    low, high = span
    share = (at - low) / (high - low) if high > low else 0.5
    return round(LEFT + 8 + (RIGHT - LEFT - 16) * share, 1)


def _down(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 1)


def _curves(
    panel: _Panel, network: Network, line: Sequence[float | None], number: int, method: int, scale: Scale,
    span: tuple[float, float], most: int,
) -> Iterator[Curve]:  # fmt: skip
    fired = network.first_fired.get(panel.letter)
    shown = kept(line, most, network.moments.fired(panel.letter), [] if fired is None else [fired])
    drawn = _drawn(panel, [(network.positions[i], line[i]) for i in shown], scale, span)
    if drawn is not None:
        mark = _mark(panel, network, line, fired, scale, span)
        yield Curve(number, method, network.name, *drawn, mark=mark)
    if panel.name == ACCURACY and network.frozen_accuracies:
        frozen = [(network.positions[i], network.frozen_accuracies[i]) for i in shown]
        baseline = _drawn(panel, frozen, scale, span)
        if baseline is not None:
            yield Curve(number, method, f"{network.name}, blocks frozen", *baseline, dashed=True)


def _drawn(
    panel: _Panel, points: Iterable[tuple[float, float | None]], scale: Scale, span: tuple[float, float]
) -> tuple[str, str, str] | None:
    """The path, and the epochs and written figures of its points; a point without a place leaves a gap."""
    known = [(at, value if value is not None and scale.holds(value) else None) for at, value in points]
    write = percent if panel.name == ACCURACY else written
    path, placed = [], []
    for there, run in groupby(known, key=lambda point: point[1] is not None):
        if there:
            corners = [(at, value) for at, value in run if value is not None]
            path.append(_segment([(_across(at, span), _down(scale.share(value))) for at, value in corners]))
            placed += corners
    if not placed:
        return None
    return " ".join(path), "|".join(f"{at:g}" for at, _ in placed), "|".join(write(value) for _, value in placed)


def _segment(corners: Sequence[tuple[float, float]]) -> str:
    # A lone point is a line of no length, which round ends make a dot.
    first, *rest = (f"{x},{y}" for x, y in corners)
    return f"M{first}" + ("L" + " ".join(rest) if rest else "h0")


def _mark(
    panel: _Panel, network: Network, line: Sequence[float | None], fired: int | None, scale: Scale,
    span: tuple[float, float],
) -> tuple[float, float, str] | None:  # fmt: skip
    if fired is None:
        return None
    value, at = line[fired], network.moments.at(fired)
    # What has no place on the scale is drawn at the edge that it lies beyond.
    share = scale.share(value) if value is not None and not math.isnan(value) else 1.0
    says = f"{network.name}: {label(network.report, panel.letter)} first fires at {at}"
    return _across(network.positions[fired], span), _down(share), says


def _fires(comparison: str, threshold: float | None) -> tuple[float, float] | None:
    if threshold is None:
        return None
    return (TOP, round(threshold - TOP, 1)) if comparison == ">" else (threshold, round(BOTTOM - threshold, 1))


def _x_ticks(span: tuple[float, float]) -> Iterable[Tick]:
    low, high = span
    rough = max(high - low, 1) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(next(f * power for f in (1, 2, 5, 10) if f * power >= rough), 1.0)
    first = math.ceil(low / step)
    marks = [(first + i) * step for i in range(8) if (first + i) * step <= high]
    return (Tick(_across(mark, span), f"{mark:g}") for mark in marks)


def _unit(networks: Sequence[Network]) -> str:
    return "epoch" if any(network.moments.counts_epochs for network in networks) else "step"


def fireable(networks: Sequence[Network]) -> list[str]:
    """The letters of the diagnostics that the networks were read by, but for those that only report."""
    readings = [reading for network in networks for reading in network.report.readings]
    return list(dict.fromkeys(r.letter for r in readings if r.state is not State.REPORTED))


def first_firings(networks: Sequence[Network], letters: Sequence[str]) -> list[list[str]]:
    """Method, seed, and where each diagnostic first fires from the first epoch on, of each network with a course."""
    return [
        [network.method, "–" if network.report.seed is None else str(network.report.seed), *_firsts(network, letters)]
        for network in networks
        if len(network.moments) > 1
    ]


def _firsts(network: Network, letters: Sequence[str]) -> list[str]:
    measured = network.moments.measured_letters
    found = {letter: str(network.moments.at(i)) for letter, i in network.first_fired.items()}
    return [found.get(letter, "never" if letter in measured else "not measured") for letter in letters]
