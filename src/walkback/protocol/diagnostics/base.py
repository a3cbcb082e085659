"""What a diagnostic declares and does, and the readings that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from walkback.protocol.diagnostics.broken_sites import first_non_finite
from walkback.protocol.diagnostics.declare import FIND_THE_FIRST, Quantity, Scalar, Threshold
from walkback.protocol.diagnostics.reading_maker import ReadingMaker as ReadingMaker
from walkback.protocol.records import Interval, Measurements, Reading, State
from walkback.protocol.wording import written

if TYPE_CHECKING:
    from walkback.protocol.capture import Capture


Listed = Literal["always", "measured", "never"]


class Diagnostic:
    """A question that is asked of a network, and everything that walkback needs to ask it. Subclass it to add your own.

    `measure` turns one captured batch into a part, `merge` joins two parts, and `summarise` turns the whole into
    quantities; these touch tensors. `judge` reads `Measurements` and needs no torch. Thresholds, traces, options,
    tables, pictures, sweeps and panels know nothing of a diagnostic but what is declared here.

    Args:
        limits: threshold by name; the declared default of each where not given. Names of other diagnostics are passed
            over.

    Examples:
        >>> import walkback
        >>> class LastNorm(walkback.Diagnostic):
        ...     letter = "z"
        ...     title = "last norm"
        ...     question = "Is the last hidden state large?"
        ...     meaning = "the last hidden state is large"
        ...     quantities = (walkback.Quantity("last_norm"),)
        ...     thresholds = {"last_norm_ceiling": walkback.Threshold(default=10.0, fires=">", label="last norm")}
        >>> LastNorm().judge(walkback.Measurements(extra={"last_norm": 12.0})).state.name
        'FIRE'
    """

    letter: ClassVar[str]
    """What it is called in short: `a`."""
    title: ClassVar[str]
    """What it is called: `residual growth`."""
    question: ClassVar[str]
    """What it asks, as a sentence with a question mark."""
    meaning: ClassVar[str]
    """What a firing says of the network, in plain words: `the signal grows out of bounds from block to block`."""
    remedy: ClassVar[str] = ""
    """What to do next where it fires."""
    non_finite_remedy: ClassVar[str] = FIND_THE_FIRST
    """What to do next where its value is NaN or Inf."""
    case_remedies: ClassVar[Mapping[str, str]] = {}
    """The same by the case of a reading, for a diagnostic that fires for several reasons."""
    thresholds: ClassVar[Mapping[str, Threshold]] = {}
    """By name; `DiagnosticThresholds(name=…)` sets one. The first is the one that is judged by."""
    quantities: ClassVar[tuple[Quantity, ...]] = ()
    """What it measures. The first is the one that is judged, where `judge` is not overridden."""

    fires_alone: ClassVar[str] = ""
    """What is said where nothing else fires, by a diagnostic that fires on healthy networks too; without full stop."""
    reason: ClassVar[str] = ""
    """What a firing adds to the words of a verdict; the meaning where it is empty."""
    subject: ClassVar[str] = ""
    """What is not known where it was not measured: `the growth of the signal`; the title where it is empty."""
    needs_gradient: ClassVar[bool] = True
    """Whether it can be measured only where the network has a gradient that can be trusted."""
    least_samples: ClassVar[int] = 1
    """With fewer there is nothing to measure."""
    listed: ClassVar[Listed] = "always"
    """Which reports have its reading, beside those whose panel names it: all, those where it was measured, or none."""
    measures: ClassVar[bool] = False
    """Whether it measures batches itself; set where `measure` is overridden. Else it judges what others measure."""
    derived: ClassVar[tuple[Quantity, ...]] = ()
    """Quantities that follow from those it measures: shown where those are, and held by no record."""
    scalars: ClassVar[tuple[Scalar, ...]] = ()
    """What stands for it in tables of networks and over time; the value of its reading where none are declared."""
    curve: ClassVar[str] = ""
    """The scalar on whose curve its firings are marked, where scalars are declared."""
    value_title: ClassVar[str] = ""
    """What the value of its reading is, above a picture of it; the title where it is empty."""
    signed: ClassVar[bool] = False
    """Whether its value is a difference, whose sign says who is ahead."""
    from_some_sites: ClassVar[bool] = False
    """Whether a record that has norms at some of the sites only can say something of it."""

    @classmethod
    def remedy_for(cls, case: str | None) -> str:
        """What to do next where it fires for this reason.

        Args:
            case: why it fires, as the reading says; None where it does not say.

        Returns:
            A sentence; empty where the diagnostic has none.
        """
        return cls.case_remedies.get(case or "", cls.remedy)

    def __init__(self, limits: Mapping[str, float | None] | None = None) -> None:
        self.limits: dict[str, float | None] = {name: t.default for name, t in self.thresholds.items()}
        for name, value in (limits or {}).items():
            if name in self.limits:
                self.limits[name] = value

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.measures = cls.measure is not Diagnostic.measure

    @staticmethod
    def measure(capture: Capture) -> Any:
        """The part that one batch contributes. Override it to measure batches.

        Args:
            capture: one batch with its hidden states and gradients at every site.

        Returns:
            Tensors with the samples first, where `merge` is not overridden; else whatever `merge` joins.
        """
        raise NotImplementedError

    @staticmethod
    def merge(left: Any, right: Any) -> Any:
        """Two parts as one. By default samples are put below each other.

        Args:
            left: the part of the earlier batches.
            right: the part of the later ones.

        Returns:
            A part.
        """
        from torch import cat

        if isinstance(left, tuple):
            return tuple(cat(pair) for pair in zip(left, right, strict=True))
        return cat([left, right])

    @staticmethod
    def summarise(part: Any) -> dict[str, Any]:
        """The quantities of the whole. Override it where `measure` is overridden.

        Args:
            part: all parts, merged.

        Returns:
            The value of each quantity, by its name: a number, or one number per site.
        """
        raise NotImplementedError

    @classmethod
    def meaning_of(cls, reading: Reading, measured: Measurements) -> str:
        """What a firing says of this network, in plain words.

        Args:
            reading: that fires.
            measured: the numbers that it is of.

        Returns:
            The meaning.
        """
        return cls.meaning

    @classmethod
    def is_listed(cls, reading: Reading) -> bool:
        """Whether a report has this reading where the panel does not name the diagnostic.

        Args:
            reading: of this diagnostic.

        Returns:
            What `listed` says.
        """
        return cls.listed == "always" or (cls.listed == "measured" and reading.state is not State.NOT_MEASURED)

    @classmethod
    def case_over_seeds(cls, mean: Interval) -> str:
        """Which of its cases the mean over three seeds or more shows.

        Args:
            mean: the interval of the mean over seeds.

        Returns:
            The case in words; empty where the diagnostic has none.
        """
        return ""

    def judge(self, measured: Measurements) -> Reading:
        """Read the measurements: FIRE where the first quantity, at its worst site, crosses the first threshold.

        Args:
            measured: the numbers of one network.

        Returns:
            The reading. NaN and Inf fire; what was not measured is NOT_MEASURED.
        """
        quantity = self.quantities[0]
        value = measured.value_of(quantity.name)
        make = self.reading_maker(unit=quantity.unit)
        if value is None:
            return make.not_measured(f"{quantity.shown[:1].upper()}{quantity.shown[1:]} was not measured.")
        values = value if isinstance(value, tuple) else (value,)
        broken = first_non_finite(values)
        if broken is not None:
            where = f"{quantity.shown} at site {broken}" if quantity.per_site else quantity.shown
            return make.non_finite(f"{where} is NaN or Inf", values[broken], broken if quantity.per_site else None)
        if not self.thresholds:
            return make.reported(values[-1], f"{quantity.shown} is {written(values[-1])}; nothing is judged by it.")
        worst = (max if make.comparison == ">" else min)(values)
        words = f"{quantity.shown} is {written(worst)}"
        return make.judged(
            worst,
            reason=self.reason or self.meaning,
            fired=f"{words}: {self.meaning}. {self.remedy}".strip(),
            passed=f"{words}.",
            site=values.index(worst) if quantity.per_site else None,
        )

    @classmethod
    def judged_by(cls, limits: Mapping[str, float | None]) -> dict[str, float]:
        """The thresholds that are judged by: those that have a value, and that no other replaces.

        Args:
            limits: threshold by name.

        Returns:
            The value of each, by its name.
        """
        given = {name: limit for name in cls.thresholds if (limit := limits.get(name)) is not None}
        replaced = {cls.thresholds[name].replaces for name in given}
        return {name: limit for name, limit in given.items() if name not in replaced}

    @classmethod
    def compared_with(cls, threshold: str) -> str:
        """The quantity that a threshold is for.

        Args:
            threshold: its name.

        Returns:
            The name of the quantity; empty where the diagnostic does not say.
        """
        if cls.thresholds[threshold].quantity or cls.judge is not Diagnostic.judge:
            return cls.thresholds[threshold].quantity
        return cls.quantities[0].name

    @classmethod
    def shown_scalars(cls) -> tuple[Scalar, ...]:
        """What stands for it in tables of networks and over time.

        Returns:
            The scalars that are declared; else one, the value of the reading, named by the letter.
        """
        return cls.scalars or (cls._reading_as_scalar(),)

    @classmethod
    def _reading_as_scalar(cls) -> Scalar:
        name, quantity = next(iter(cls.thresholds), ""), next(iter(cls.quantities), None)
        axis = cls.thresholds[name].axis if name else quantity.axis if quantity is not None else "linear"
        return Scalar(
            cls.letter, cls.title, title=cls.value_title or cls.title, threshold=name, axis=axis, signed=cls.signed,
            tabled=cls.listed != "never", timed=cls.listed != "never", live=cls.listed == "always",
        )  # fmt: skip

    @classmethod
    def curve_name(cls) -> str:
        """The scalar on whose curve firings are marked.

        Returns:
            Its name; empty where there is none.
        """
        return cls.curve or ("" if cls.scalars else cls.letter)

    def reading_maker(self, threshold: str = "", unit: str = "", title: str = "") -> ReadingMaker:
        """What builds the readings of this diagnostic, for a `judge` of your own.

        Args:
            threshold: the name of the threshold to judge by; the first where empty.
            unit: the unit of the value; that of the threshold where empty.
            title: what the reading is called; the title of the diagnostic where empty.

        Returns:
            It has one method for each state.
        """
        name = threshold or next(iter(self.thresholds), "")
        declared = self.thresholds.get(name)
        limit = self.limits.get(name)
        shown = unit or (declared.unit if declared is not None else "")
        return ReadingMaker(self.letter, title or self.title, declared.fires if declared else None, limit, shown)


def without_reference(measured: Measurements, otherwise: str) -> str:
    """Why a value of the gradient is missing: there is no reference for it, or something else."""
    check = measured.reference_check
    return check.reason if check is not None and check.reason else otherwise
