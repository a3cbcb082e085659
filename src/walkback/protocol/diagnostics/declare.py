"""What a diagnostic says of itself: the thresholds that it fires at, and the quantities that it measures. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Comparison = Literal[">", "<"]
Axis = Literal["linear", "log"]
Kind = Literal["number", "norm", "cosine", "count", "broken"]


BOUND_THE_STREAM = (
    "Bound the stream: penalise ‖h‖, or put a norm after each block. If the credit is rescaled per sample, try it "
    "without."
)
"""What to do about a stream that grows; credit of one length for every sample is among its causes (DFA)."""
CHECK_INPUTS = "Check that the inputs hold no NaN or Inf."
FIND_THE_FIRST = (
    f"{CHECK_INPUTS} Then find the first step with one (walkback.Monitor), lower the learning rate, and check the loss "
    "for values that are not finite."
)
"""What to do about NaN and Inf, whichever diagnostic finds them."""
LEAST_SPAN = 0.2
"""What a linear axis spans at least, of values such as cosines: smaller differences are not drawn large."""


def log_grid(low: int, high: int) -> tuple[float, ...]:
    """From 10**low to 10**high, four points to the decade."""
    return tuple(float(f"{10 ** (step / 4):.4g}") for step in range(4 * low, 4 * high + 1))


def even_grid(low: float, high: float, step: float) -> tuple[float, ...]:
    """From low to high in equal steps."""
    return tuple(round(low + step * i, 6) for i in range(round((high - low) / step) + 1))


@dataclass(frozen=True)
class Threshold:
    """A value at which a diagnostic fires, and what users may set it to.

    Examples:
        >>> import walkback
        >>> threshold = walkback.Threshold(default=50.0, fires=">", label="growth of one block", above=1.0, axis="log")
        >>> threshold.fault(0.5)
        'expected a number above 1'
    """

    default: float | None
    """Where it fires if nothing else is set; None where the diagnostic does not use it unless it is given."""
    fires: Comparison
    """On which side of it the diagnostic fires."""
    label: str
    """What is compared with it: `growth of one block`."""
    above: float | None = None
    """It must be larger than this."""
    least: float | None = None
    """It must be at least this."""
    most: float | None = None
    """It must be at most this."""
    unit: str = ""
    """The unit of what is compared with it."""
    sweep: tuple[float, ...] = ()
    """The values that a sensitivity study tries; some around the default where none are given."""
    axis: Axis = "linear"
    """How distances from it are told: `linear` as differences, `log` as ratios."""
    replaces: str = ""
    """The threshold that is not judged by where this one is given."""
    short: str = ""
    """The label where there is little room; the label itself where none is given."""
    quantity: str = ""
    """Which quantity is compared with it, for pictures that draw both; the first where `judge` is not overridden."""

    def fault(self, value: float | None) -> str:
        """Why a value cannot be taken.

        Args:
            value: what a user set.

        Returns:
            The reason; empty where it can be taken.
        """
        if value is None:
            return "" if self.default is None else "expected a number"
        if not math.isfinite(value):
            return "expected a finite number"
        if self.above is not None and not value > self.above:
            return f"expected a number above {self.above:g}"
        low, high = self.least, self.most
        if (low is not None and value < low) or (high is not None and value > high):
            if high is None:
                return f"expected a number of at least {low:g}"
            return f"expected a number of at most {high:g}" if low is None else f"expected one from {low:g} to {high:g}"
        return ""

    @property
    def tried(self) -> tuple[float, ...]:
        """The values of a sensitivity sweep."""
        if self.sweep or not self.default:
            return self.sweep
        around = (self.default * 10 ** (step / 4) for step in range(-8, 9))
        return tuple(value for value in around if not self.fault(value))


@dataclass(frozen=True)
class Quantity:
    """A number, or one number per site, that a diagnostic adds to `Measurements`.

    Examples:
        >>> import walkback
        >>> rank = walkback.Quantity("effective_rank", per_site=True)
        >>> rank.shown, rank.read(walkback.Measurements(extra={"effective_rank": (3.0, 2.0)}))
        ('effective rank', (3.0, 2.0))
    """

    name: str
    """What it is called in records: a field of `Measurements`, or a key of its `extra`."""
    label: str = ""
    """What it is called in tables and pictures; the name where none is given."""
    kind: Kind = "number"
    """What it can be: a norm is never negative, a cosine (or a signed share) lies in [−1, 1], and `broken` counts
    samples with NaN or Inf."""
    unit: str = ""
    """Its unit; empty where it has none."""
    per_site: bool = False
    """Whether there is one number for each site."""
    axis: Axis = "linear"
    """On which axis it is drawn, `linear` or `log`."""
    traced: bool = False
    """Whether every line of a trace keeps it."""
    interval: str = ""
    """The quantity that holds its intervals, where there is one."""
    mean_interval: str = ""
    """The quantity that holds the interval of its mean behind h_0, where there is one."""
    intervals_traced: bool = False
    """Whether every line of a trace keeps those intervals too."""
    heading: str = ""
    """The heading of its column over the sites; the label where none is given."""
    tex: str = ""
    """The heading in LaTeX; the heading, escaped, where none is given."""
    meaning: str = ""
    """What it is, where a reader asks for more than its heading: `median norm of the residual stream`."""
    caption: str = ""
    """What stands beside the heading above a picture: `the residual stream`."""
    legend: str = ""
    """What is said below its picture over the sites; a sentence on the threshold where none is given."""
    digits: int = 0
    """How many significant digits it is written with; as many as everything else where 0."""
    signed: bool = False
    """Whether it is written with its sign."""
    profiled: bool = False
    """Whether a terminal shows how it runs along the network, on a logarithmic scale."""
    explains: bool = False
    """Whether it explains another quantity of its diagnostic, and its absence is remarked on where that is known."""
    csv: str = ""
    """What its columns begin with in CSV files, `h` for h_0, h_1, …; the name for quantities of other packages."""
    why_missing: str = ""
    """The field of `Measurements` that says why it was not measured, where there is one."""
    place: int = 0
    """Columns of a higher place stand further right; those of one place in the order of the diagnostics."""
    least_span: float = LEAST_SPAN
    """What a linear axis of it spans at least; 0 for values of no natural size."""
    of: Callable[[Any], Any] | None = None
    """How it follows from `Measurements`, where it is not simply the value of that name."""

    @property
    def shown(self) -> str:
        """The label, or the name in words."""
        return self.label or self.name.replace("_", " ")

    @property
    def all_intervals(self) -> tuple[str, ...]:
        """The quantities that hold intervals of it."""
        return tuple(filter(None, (self.interval, self.mean_interval)))

    @property
    def headed(self) -> str:
        """What its column is headed by."""
        return self.heading or self.shown

    def read(self, measured: Any) -> Any:
        """Its value among the measurements.

        Args:
            measured: the `Measurements` of one network.

        Returns:
            A number, one per site, or None where it was not measured.
        """
        return self.of(measured) if self.of is not None else measured.value_of(self.name)


@dataclass(frozen=True)
class Scalar:
    """One number that stands for a network: a column of a table of networks, a curve over time."""

    name: str
    """What it is asked for by: `trail.series("growth")`."""
    heading: str
    """The heading of its column."""
    of: Callable[[Any], float | None] | None = None
    """How it follows from `Measurements`; the value of the diagnostic's reading where none is given."""
    partly: Callable[[Any], float | None] | None = None
    """How its curve goes on where a record holds some of the sites only."""
    title: str = ""
    """Above its curve; the heading where none is given."""
    tex: str = ""
    """The heading in LaTeX; the heading, escaped, where none is given."""
    threshold: str = ""
    """The threshold that it is read against, by name."""
    axis: Axis = "linear"
    """On which axis it is drawn, `linear` or `log`."""
    signed: bool = False
    """Whether it is written with its sign."""
    tabled: bool = True
    """Whether tables of networks have a column for it."""
    timed: bool = True
    """Whether it has a curve over time."""
    live: bool = False
    """Whether it is shown while a run is being watched."""
    tag: str = ""
    """What experiment trackers get it as, behind `walkback/`; they do not get it where none is given."""
    least_span: float = LEAST_SPAN
    """What a linear axis of it spans at least; 0 for values of no natural size."""
    larger: str = ""
    """What a larger number says, in a word below a table, where no threshold tells: `better`."""
    gives_way: int = 2
    """Which columns leave a table that is too wide: those of the highest number first, those of 0 never."""

    def read(self, measured: Any, figure: float | None) -> float | None:
        """The number that stands for one network.

        Args:
            measured: its `Measurements`.
            figure: the value of the diagnostic's reading.

        Returns:
            The number; None where it was not measured.
        """
        return figure if self.of is None else self.of(measured)

    @property
    def titled(self) -> str:
        """What its curve is called."""
        return self.title or self.heading
