"""A score in any unit, and the score of a frozen baseline with what it froze: plain numbers, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from walkback.protocol.json_codec import NON_FINITE
from walkback.protocol.pairing import Answered
from walkback.protocol.schema import SCHEMA_VERSION, Record, load_record, plain, read_json
from walkback.protocol.wording import counted, written

ACCURACY = "accuracy"
"""The unit of a share of right answers, in [0, 1]; the published (d) is in points of it."""


def _a_number(value: Any) -> Any:
    """True and '0.9' would turn into numbers; whoever hands them in as a score meant something else."""
    value = plain(value)
    if isinstance(value, bool) or (isinstance(value, str) and value not in NON_FINITE):
        raise ValueError("expected a number")
    return value


ScoreNumber = Annotated[float, BeforeValidator(_a_number)]


def out_of_range(name: str, accuracy: float | None) -> str:
    """What is wrong with an accuracy outside [0, 1]; empty where nothing is. NaN stays, and is judged as non-finite."""
    if accuracy is None or not (accuracy < 0 or accuracy > 1):
        return ""
    if 1 < accuracy <= 100:
        return f"{name} is {accuracy} and looks like per cent; expected a score in [0, 1]: divide percentages by 100"
    return f"{name} is {accuracy}; expected a score in [0, 1]"


class Score(Record):
    """A score with its unit, and what it was counted on.

    It is an accuracy in [0, 1] where no unit is named. Any other unit says whether more is better.

    Raises:
        InputError: an accuracy lies outside [0, 1], a unit comes without its direction, or the fields contradict each
            other.

    Examples:
        >>> import walkback
        >>> walkback.Score(value=0.61, samples=10_000).is_accuracy
        True
        >>> mine = walkback.Score(value=24.1, unit="perplexity", higher_is_better=False, samples=256, answers=8192)
        >>> other = walkback.Score(value=25.1, unit="perplexity", higher_is_better=False)
        >>> mine.gain_over(other)
        1.0
    """

    value: ScoreNumber
    """The number, in its unit."""
    samples: int | None = Field(default=None, ge=1)
    """How many samples it was counted on. They are independent of each other, such as images or sequences of tokens;
    intervals rest on them."""
    answers: int | None = Field(default=None, ge=1)
    """How many answers were scored, where a sample has several, such as the tokens of all sequences."""
    unit: str = Field(default=ACCURACY, min_length=1)
    """Its unit; `accuracy`, a share of right answers in [0, 1], where none is named."""
    higher_is_better: bool = True
    """Whether more is better."""
    correct: Answered | None = None
    """Of an accuracy, which samples were answered rightly: one boolean for each, in the order of the test set. Two
    scores on the same samples are then compared in pairs, which shows far smaller differences."""

    def __str__(self) -> str:
        value = f"{100 * self.value:.1f} %" if self.is_accuracy else f"{written(self.value)} {self.unit}"
        return value if self.samples is None else f"{value} on {counted(self.samples, 'sample')}"

    @model_validator(mode="before")
    @classmethod
    def _direction_is_said(cls, data: Any) -> Any:
        unit = data.get("unit", ACCURACY) if isinstance(data, dict) else ACCURACY
        if unit not in ("", ACCURACY) and "higher_is_better" not in data:
            raise ValueError(f"a score in {unit} does not say which way is better; give higher_is_better=True or False")
        return data

    @model_validator(mode="after")
    def _makes_sense(self) -> Score:
        if self.unit == ACCURACY:
            if fault := out_of_range("value", self.value):
                raise ValueError(f"{fault}, or name another unit=")
            if not self.higher_is_better:
                raise ValueError("of accuracy more is better; name another unit=, such as 'error rate'")
        if self.samples is not None and self.answers is not None and self.answers < self.samples:
            raise ValueError(f"{self.answers} answers of {self.samples} samples; expected one of each sample or more")
        if self.correct is not None and (fault := _not_of(self.correct, self)):
            raise ValueError(fault)
        return self

    @property
    def is_accuracy(self) -> bool:
        """Whether it is a share of right answers."""
        return self.unit == ACCURACY

    def gain_over(self, other: Score) -> float:
        """By how much this score is better than another, in their unit; negative where it is worse.

        Args:
            other: a score in the same unit.

        Returns:
            The difference.
        """
        return self.value - other.value if self.higher_is_better else other.value - self.value

    def same_unit_as(self, other: Score) -> bool:
        """Whether two scores can be compared.

        Args:
            other: the other score.

        Returns:
            True where unit and direction are the same.
        """
        return (self.unit, self.higher_is_better) == (other.unit, other.higher_is_better)


def _not_of(correct: Answered, score: Score) -> str:
    """Why right answers cannot be those of a score; empty where they can."""
    if not score.is_accuracy or score.answers is not None:
        return "correct is for accuracies with one answer for each sample"
    if score.samples not in (None, correct.samples):
        return f"correct holds {correct.samples} samples, and samples is {score.samples}; expected one for each"
    if abs(correct.share - score.value) > 1e-6:
        return f"correct holds {correct.share:.6f} right answers, and value is {score.value}; expected the same share"
    return ""


BlocksAt = Literal["init", "trained norms"]
"""Where the blocks of a baseline were frozen: as the network is built, or drawn anew with the norms of trained ones."""


class Frozen(Record):
    """What a frozen baseline left at its random start."""

    blocks: tuple[str, ...] = ()
    """The names of the frozen blocks."""
    parameters: tuple[str, ...] = ()
    """The names of the frozen parameters; empty where only the blocks are known."""
    values: int | None = Field(default=None, ge=0)
    """How many numbers these parameters hold."""
    all_values: int | None = Field(default=None, ge=0)
    """How many numbers all parameters of the network hold."""

    @property
    def share(self) -> float | None:
        """The share of the network's numbers that was frozen; None where it is not known."""
        return self.values / self.all_values if self.values is not None and self.all_values else None


class FrozenBaseline(Record):
    """The score of the same network, trained the same way, with its blocks frozen at random. From `frozen_baseline`.

    Raises:
        InputError: it has no score or two, an accuracy outside [0, 1], or fields that contradict each other.

    Examples:
        >>> import walkback
        >>> walkback.FrozenBaseline(accuracy=0.34, samples=10_000, seed=0).measured.value
        0.34
    """

    schema_version: int = SCHEMA_VERSION
    """The version of the record's format."""
    accuracy: ScoreNumber | None = None
    """The accuracy, in [0, 1]; None where the score is in another unit."""
    samples: int | None = Field(default=None, ge=1)
    """Over how many independent samples."""
    answers: int | None = Field(default=None, ge=1)
    """Over how many answers, where a sample has several."""
    correct: Answered | None = None
    """Which samples were answered rightly, as in `Score`."""
    blocks_at: BlocksAt = "init"
    """Where the blocks were frozen: as the network is built, or drawn anew with the norms of trained ones."""
    score: Score | None = None
    """The score, where it is in another unit than accuracy."""
    seed: int | None = None
    """The seed that was set before the model was built."""
    config: dict[str, Any] = Field(default_factory=dict)
    """What the training function was called with; a baseline matches a run of the same config and seed."""
    frozen_blocks: tuple[str, ...] = ()
    """The names of the frozen blocks."""
    frozen_parameters: tuple[str, ...] = ()
    """The names of the frozen parameters."""
    frozen_values: int | None = Field(default=None, ge=0)
    """How many numbers the frozen parameters hold."""
    all_values: int | None = Field(default=None, ge=0)
    """How many numbers all parameters hold."""
    network: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Every parameter of the network with its shape: a baseline matches no other network."""

    def __str__(self) -> str:
        at = "" if self.blocks_at == "init" else ", drawn anew with the norms of trained ones"
        which = f"block{'s' if len(self.frozen_blocks) > 1 else ''} {', '.join(self.frozen_blocks)} frozen"
        return f"{self.measured}{f', {which}' if self.frozen_blocks else ''}{at}"

    @model_validator(mode="after")
    def _one_score(self) -> FrozenBaseline:
        if (self.accuracy is None) == (self.score is None):
            raise ValueError("expected accuracy= in [0, 1], or score= in another unit: one of the two")
        if fault := out_of_range("accuracy", self.accuracy):
            raise ValueError(fault)
        if self.score is not None and self.score.is_accuracy:
            raise ValueError("score= is an accuracy; give it as accuracy=")
        if self.correct is not None and (fault := self._misfit(self.correct)):
            raise ValueError(fault)
        return self

    def _misfit(self, correct: Answered) -> str:
        if self.accuracy is None:
            return "correct is for accuracies with one answer for each sample"
        return _not_of(correct, Score(value=self.accuracy, samples=self.samples, answers=self.answers))

    @property
    def measured(self) -> Score:
        """The score, in whichever unit it is."""
        if self.score is not None:
            return self.score
        assert self.accuracy is not None
        return Score(value=self.accuracy, samples=self.samples, answers=self.answers, correct=self.correct)

    @property
    def frozen(self) -> Frozen | None:
        """What was frozen; None where the record does not say."""
        if not self.frozen_blocks and not self.frozen_parameters:
            return None
        return Frozen(
            blocks=self.frozen_blocks,
            parameters=self.frozen_parameters,
            values=self.frozen_values,
            all_values=self.all_values,
        )

    @classmethod
    def load(cls, path: str | Path) -> FrozenBaseline:
        """Read a baseline that `save` wrote.

        Args:
            path: the file.

        Returns:
            The baseline.

        Raises:
            RecordError: the file is missing, corrupt, or no baseline that this version reads.
        """
        return load_record(cls, read_json(path), str(path))
