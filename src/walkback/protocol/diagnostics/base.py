"""What a diagnostic supplies, and the readings that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from walkback.protocol.records import Interval, Measurements, Reading, State
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.verdict import NON_FINITE
from walkback.strictness import about_to_compare

if TYPE_CHECKING:
    from walkback.protocol.capture import Capture


class Diagnostic(Protocol):
    """A frozen dataclass whose fields are its thresholds.

    `measure` turns one captured batch into a part, `merge` joins two parts, and `figures` turns the whole
    into fields of `Measurements`; these touch tensors. `judge` reads `Measurements` and needs no torch.
    One that measures no gradient says `needs_gradient = False`, and is measured where there is none too.
    """

    letter: ClassVar[str]
    name: ClassVar[str]

    @classmethod
    def from_thresholds(cls, thresholds: DiagnosticThresholds) -> Diagnostic:
        """The diagnostic with its thresholds taken from the common record."""
        ...

    @staticmethod
    def measure(capture: Capture) -> Any:
        """The part that one batch contributes."""
        ...

    @staticmethod
    def merge(left: Any, right: Any) -> Any:
        """Two parts as one."""
        ...

    @staticmethod
    def figures(part: Any) -> dict[str, Any]:
        """Fields of `Measurements` from the merged part."""
        ...

    def judge(self, measured: Measurements) -> Reading:
        """What the figures say."""
        ...


class ReadingMaker:
    """Builds the readings of one diagnostic, so that each state is worded in one place."""

    def __init__(
        self, letter: str, name: str, comparison: Literal[">", "<"], threshold: float | None, unit: str = ""
    ) -> None:
        self._common: dict[str, Any] = {
            "letter": letter, "name": name, "comparison": comparison, "threshold": threshold, "unit": unit,
        }  # fmt: skip
        compare: dict[str, Callable[[float], bool]] = {
            ">": lambda x: threshold is not None and x > threshold,
            "<": lambda x: threshold is not None and x < threshold,
        }
        self.crosses = compare[comparison]
        limit = "none given" if threshold is None else f"{comparison} {threshold:g}"
        self.rule = f"the threshold of ({letter}) {name}, {limit}"

    def not_measured(self, why: str) -> Reading:
        """Nothing to judge, and why."""
        return Reading(**self._common, state=State.NOT_MEASURED, sentence=why)

    def undecided(self, figure: float, why: str) -> Reading:
        """A figure that nothing is there to judge by, and what is missing."""
        return Reading(**self._common, state=State.UNDECIDED, figure=figure, sentence=why)

    def non_finite(self, what: str, figure: float | None = None, site: int | None = None) -> Reading:
        """NaN or Inf: it compares false with every threshold, and must never come out trustworthy."""
        about_to_compare(figure if figure is not None else float("nan"), self.rule)
        sentence = f"{what}: the network has diverged, and no other figure of it means anything."
        return Reading(**self._common, state=State.FIRE, figure=figure, site=site, reason=NON_FINITE, sentence=sentence)

    def judged(
        self,
        figure: float,
        *,
        reason: str,
        fired: str,
        passed: str,
        interval: Interval | None = None,
        site: int | None = None,
        case: str = "",
    ) -> Reading:
        """FIRE where the figure crosses the threshold, PASS where not, fragile where the interval does both."""
        about_to_compare(figure, self.rule)
        fires = self.crosses(figure)
        fragile = interval is not None and self.crosses(interval.low) != self.crosses(interval.high)
        return Reading(
            **self._common,
            state=State.FIRE if fires else State.PASS,
            figure=figure,
            site=site,
            interval=interval,
            fragile=fragile,
            reason=reason if fires else "",
            case=case if fires else "",
            sentence=fired if fires else passed,
        )


def without_reference(measured: Measurements, otherwise: str) -> str:
    """Why a figure of the gradient is missing: there is no reference for it, or something else."""
    check = measured.reference_check
    return check.reason if check is not None and check.reason else otherwise


def first_broken(counts: tuple[int, ...] | None) -> int | None:
    """The first site with a non-finite sample."""
    return next((site for site, count in enumerate(counts or ()) if count), None)


def first_non_finite(figures: tuple[float, ...]) -> int | None:
    """The first site whose figure is NaN or infinite."""
    return next((site for site, x in enumerate(figures) if x - x != 0), None)
