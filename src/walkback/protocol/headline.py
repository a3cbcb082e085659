"""The scores that a caller gives: checked before anything is measured, and held against what the batches show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from walkback.errors import InputError
from walkback.extras import optional
from walkback.protocol.schema import plain, shortened
from walkback.protocol.scores import FrozenBaseline, Score, out_of_range
from walkback.protocol.wording import p_value

SIGNIFICANT = 1e-3
"""A headline is remarked on where chance alone would bring figures this far apart less often than this."""


@dataclass(frozen=True)
class GivenScores:
    """The headline and the baseline, as the caller gave them."""

    headline: Score | None = None
    """An accuracy."""
    score: Score | None = None
    """The headline in another unit."""
    baseline: FrozenBaseline | None = None
    random: FrozenBaseline | None = None
    """The second baseline, with blocks at random and the norms of the trained ones."""

    @classmethod
    def of(
        cls,
        headline_acc: float | Score | None,
        score: Score | None,
        baseline: float | Score | FrozenBaseline | None,
        random: float | Score | FrozenBaseline | None = None,
    ) -> GivenScores:
        """Refuse what is no score, and units that cannot be compared."""
        given = cls(_headline(headline_acc), _other(score), _baseline(baseline), _random(random))
        known = given.baseline.measured if given.baseline is not None else None
        if known is None or given.score is None or known.same_unit_as(given.score):
            return given
        if known.is_accuracy and given.headline is not None:
            return given
        if known.is_accuracy:
            raise InputError(_not_an_accuracy(given.score))
        raise InputError(
            f"score= is in {_unit(given.score)} and the frozen baseline in {_unit(known)}; give both in one unit, with "
            "one direction."
        )

    def fields(self, counted: Mapping[str, Any]) -> dict[str, Any]:
        """What of `Measurements` the caller's scores decide, beside what was counted on the batches."""
        fields: dict[str, Any] = {"headline_score": self.score} if self.score is not None else {}
        if self.headline is not None and self.headline.correct is not None:
            # The claimed list is what baselines are paired with; only the counted one can check the claim.
            fields["counted_correct"] = counted.get("headline_correct")
        if self.headline is not None:
            fields |= _accuracy_fields("headline", self.headline)
        if self.baseline is not None:
            known = self.baseline.measured
            fields |= {"frozen": self.baseline.frozen}
            fields |= (
                _accuracy_fields("frozen_baseline", known) if known.is_accuracy else {"frozen_baseline_score": known}
            )
        if self.random is not None:
            known = self.random.measured
            fields |= {"random_baseline_acc": known.value, "random_baseline_samples": known.samples}
            fields |= {"random_baseline_correct": known.correct}
        return fields

    def warnings(self, counted: dict[str, Any], seed: int | None) -> list[str]:
        """What a reader must know: a headline that the batches contradict, a baseline of another seed."""
        found = [contradiction(self.headline.value, counted)] if self.headline is not None else []
        other = self.baseline.seed if self.baseline is not None else None
        if None not in (seed, other) and seed != other:
            found.append(f"the frozen baseline was trained with seed {other}, the run with seed {seed}: not matched.")
        return [warning for warning in found if warning]


def _accuracy_fields(name: str, score: Score) -> dict[str, Any]:
    fields: dict[str, Any] = {f"{name}_acc": score.value, f"{name}_samples": score.samples}
    fields[f"{name}_answers"] = score.answers
    # Without them, those that were counted on the batches stay.
    return fields | ({f"{name}_correct": score.correct} if score.correct is not None else {})


def _not_an_accuracy(score: Score) -> str:
    made = f"walkback.Score(value=…, unit={score.unit!r}, higher_is_better={score.higher_is_better})"
    return (
        f"score= is in {score.unit} and frozen_baseline_acc is an accuracy, so (d) would not be judged by the score. "
        f"Pass the baseline as {made}, or the accuracy too, as headline_acc=."
    )


def _unit(score: Score) -> str:
    return f"{score.unit} ({'more' if score.higher_is_better else 'less'} is better)"


def _headline(given: float | Score | None) -> Score | None:
    if given is None or isinstance(given, Score):
        if given is not None and not given.is_accuracy:
            raise InputError(f"headline_acc is in {given.unit}; pass it as score=. headline_acc is an accuracy.")
        return given
    return Score(value=_known("headline_acc", given))


def _other(score: Score | None) -> Score | None:
    if score is None:
        return None
    if not isinstance(score, Score):
        raise InputError(
            f"score= is {shortened(score)}; expected walkback.Score(value=…, unit='…', higher_is_better=…), such as a "
            "perplexity. An accuracy goes into headline_acc=."
        )
    if score.is_accuracy:
        raise InputError("score= is an accuracy; pass it as headline_acc=. score= is for other units.")
    return score


def _baseline(given: float | Score | FrozenBaseline | None, name: str = "frozen_baseline_acc") -> FrozenBaseline | None:
    if given is None or isinstance(given, FrozenBaseline):
        return given
    if isinstance(given, Score) and not given.is_accuracy:
        return FrozenBaseline(score=given)
    if isinstance(given, Score):
        return FrozenBaseline(accuracy=given.value, samples=given.samples, answers=given.answers, correct=given.correct)
    return FrozenBaseline(accuracy=_known(name, given))


def _random(given: float | Score | FrozenBaseline | None) -> FrozenBaseline | None:
    known = _baseline(given, "random_baseline")
    if known is not None and not known.measured.is_accuracy:
        raise InputError("random_baseline is in another unit than accuracy; give the accuracy of that network.")
    return known


def _known(name: str, given: Any) -> float:
    """A plain number in [0, 1] that a caller passes for an accuracy; NaN is a mistake in how it was come by."""
    value = _checked(name, given)
    if value != value:
        raise InputError(
            f"{name} is NaN, which is no accuracy. Count the right answers: a network that diverged has some too, "
            "or none. Or leave it out. If NaN is meant, pass walkback.Score(value=math.nan): the verdict is then of "
            "values that are not finite."
        )
    return value


def checked_accuracy(name: str, given: Any) -> float | None:
    """A plain number in [0, 1], or None where none was given."""
    return None if given is None else _checked(name, given)


def _checked(name: str, given: Any) -> float:
    """A plain number in [0, 1]; whoever passes True or '0.9' meant something else."""
    value = plain(given)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(
            f"{name} is {shortened(given)}; expected an accuracy in [0, 1], such as 0.912, or a walkback.Score."
        )
    if fault := out_of_range(name, float(value)):
        raise InputError(f"{fault}.")
    return float(value)


def contradiction(headline: float, counted: dict[str, Any]) -> str:
    """A remark where the accuracy on the batches is not what the headline says; empty where it may well be.

    Two-sided, exact binomial test of the right answers against the headline. Where a sample has several answers, the
    test is of as many answers as there are samples, at the same share: those of one sample are not independent.
    """
    share, samples = counted.get("headline_acc"), counted.get("headline_samples")
    if share is None or samples is None or not 0 <= headline <= 1:
        return ""
    stats = optional("scipy.stats")  # takes longer to import than most diagnoses need it
    p = float(stats.binomtest(round(share * samples), samples, headline).pvalue)
    if p >= SIGNIFICANT:
        return ""
    return (
        f"the headline accuracy is {100 * headline:.2f} %, and on the batches the network has {100 * share:.2f} % of "
        f"{_counted(samples, counted.get('headline_answers'))}; a gap this large has {p_value(p)} by chance (binomial "
        "test). Is it the headline of this network, and are these batches held out?"
    )


def _counted(samples: int, answers: int | None) -> str:
    return f"{samples:,} samples" if answers is None else f"{answers:,} tokens in {samples:,} sequences"
