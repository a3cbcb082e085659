"""Scores in words: accuracy, perplexity, the frozen baseline and what it froze."""

from __future__ import annotations

from collections.abc import Iterator

from walkback.present import numbers
from walkback.present.numbers import count, percent, written
from walkback.present.plain import NAME_LENGTH, middle_out, shortened
from walkback.protocol.records import Measurements
from walkback.protocol.scores import Score

FROZEN = "frozen blocks"
_MOST_BLOCKS = 6


def scores_in_words(report: Measurements) -> Iterator[tuple[str, str]]:
    """Every score that was given or measured, with its label."""
    for label, words in (
        ("accuracy", accuracy_words(report)),
        ("perplexity", perplexity_words(report)),
        ("score", score_words(report.headline_score)),
        ("frozen baseline", baseline_words(report)),
        (FROZEN, frozen_words(report)),
    ):
        if words:
            yield label, words


def accuracy_words(report: Measurements) -> str:
    """The accuracy and what it was counted on; of one that was claimed, also that on the batches. Empty without one."""
    said = _share_words(report.headline_acc, report.headline_samples, report.headline_answers)
    if said and report.nonfinite_logits:
        said += (
            f" (NaN or Inf in the logits of {count(report.nonfinite_logits, 'sample')}; with NaN no answer is right)"
        )
    counted = report.answered.share if report.answered is not None else None
    if not said or counted is None or percent(counted) == percent(report.headline_acc):
        return said
    return f"{said} as claimed; {percent(counted)} on these batches"


def perplexity_words(report: Measurements) -> str:
    """Of a language model, on the batches; empty of others."""
    if report.perplexity is None:
        return ""
    over = f" over {_tokens(report.tokens, report.samples)}" if report.tokens is not None else ""
    return f"{written(report.perplexity)}{over}"


def baseline_words(report: Measurements) -> str:
    """The frozen baseline's score, in whichever unit; empty where there is none."""
    known = report.frozen_baseline_acc, report.frozen_baseline_samples, report.frozen_baseline_answers
    return score_words(report.frozen_baseline_score) or _share_words(*known)


def score_words(score: Score | None) -> str:
    """`24.1 perplexity, less is better, of 8,192 tokens in 256 sequences`; empty where there is none."""
    if score is None:
        return ""
    unit = shortened(score.unit, 40)
    better = "more" if score.higher_is_better else "less"
    counted = _counted(score.samples, score.answers)
    return f"{numbers.with_unit(written(score.value), unit)}, {better} is better{',' if counted else ''}{counted}"


def _share_words(share: float | None, samples: int | None, answers: int | None) -> str:
    return "" if share is None else percent(share) + _counted(samples, answers)


def _counted(samples: int | None, answers: int | None) -> str:
    if answers is not None:
        return f" of {_tokens(answers, samples)}"
    return f" on {count(samples, 'sample')}" if samples else ""


def _tokens(answers: int, samples: int | None) -> str:
    return count(answers, "token") + (f" in {count(samples, 'sequence')}" if samples else "")


def frozen_words(report: Measurements) -> str:
    """Which blocks the baseline left at random, and what share of the network that is; empty without a baseline."""
    if not baseline_words(report):
        return ""
    frozen = report.frozen
    if frozen is None:
        return "not known: the baseline came as a number alone"
    more = len(frozen.blocks) - _MOST_BLOCKS
    named = [middle_out(block, NAME_LENGTH) for block in frozen.blocks]
    listed = ", ".join(named) if more <= 0 else f"{', '.join(named[: _MOST_BLOCKS - 1])} … {named[-1]}"
    if frozen.share is None:
        return listed
    share = f"{frozen.values:,} of {frozen.all_values:,} parameters ({100 * frozen.share:.1f} %)"
    return f"{listed}: {share}, in {count(len(frozen.parameters), 'tensor')}"
