"""Two networks on the same samples: which of them answered each rightly, and what that says. No torch.

A difference of two accuracies on one test set rests on the samples that one network answers rightly and the other does
not. All others cancel, so that counts in pairs tell far smaller differences than two accuracies do.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from walkback.protocol.schema import Record, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from walkback.protocol.records import Interval

SEEDS_NOT_INCLUDED = "variance over seeds not included"
PAIRED = "paired over"


class Answered(Record):
    """Which samples were answered rightly, one bit each, in their order.

    It is also made from one boolean per sample: `Score(value=0.75, correct=[True, True, False, True])`.
    """

    samples: int = Field(ge=1)
    """How many samples there are."""
    bits: str
    """base64 of numpy.packbits with bitorder big: sample 0 is the highest bit of the first byte."""
    labels: str = ""
    """A hash of the samples' labels in this order; empty where they are not known."""

    @model_validator(mode="before")
    @classmethod
    def _of_booleans(cls, data: Any) -> Any:
        data = plain(data)
        if not isinstance(data, list | tuple):
            return data
        wrong = next((entry for entry in data if not isinstance(entry, bool)), None)
        if wrong is not None:
            raise ValueError(f"correct holds {wrong!r}; expected True or False for each sample")
        return {"samples": len(data), "bits": packed(data)}

    @model_validator(mode="after")
    def _fits(self) -> Answered:
        try:
            held = len(base64.b64decode(self.bits, validate=True))
        except ValueError:
            raise ValueError("the bits of the right answers are not base64") from None
        if held != (self.samples + 7) // 8:
            raise ValueError(f"{held} bytes of right answers for {self.samples} samples; expected a bit for each")
        return self

    @classmethod
    def of(cls, right: NDArray[np.bool_], labels: NDArray[np.int64] | None = None) -> Answered:
        """Make one from arrays.

        Args:
            right: one boolean per sample, shape (N,).
            labels: the labels that they were scored by, shape (N,); None where they are not known.

        Returns:
            The record.
        """
        known = "" if labels is None else labels_digest(labels)
        return cls(samples=len(right), bits=packed(right), labels=known)

    @property
    def right(self) -> NDArray[np.bool_]:
        """One boolean per sample, shape (N,)."""
        import numpy as np

        raw = np.frombuffer(base64.b64decode(self.bits), dtype=np.uint8)
        return np.unpackbits(raw, count=self.samples, bitorder="big").astype(np.bool_)

    @property
    def share(self) -> float:
        """The share of right answers, in [0, 1]."""
        return float(self.right.mean())

    def why_not_paired(self, other: Answered) -> str:
        """Why the samples of two records are not known to be the same in the same order.

        Args:
            other: the other record.

        Returns:
            The reason; empty where they may be the same.
        """
        if self.samples != other.samples:
            return f"one was scored on {self.samples:,} samples and the other on {other.samples:,}"
        if self.labels and other.labels and self.labels != other.labels:
            return "the labels of the samples differ in their order, as they do where a loader shuffles"
        return ""


def on_trust(first: Answered | None, second: Answered | None) -> bool:
    """Whether nothing but their number says that the samples of two lists are the same: one of them names no labels."""
    return first is not None and second is not None and not (first.labels and second.labels)


def why_apart(first: Answered | None, second: Answered | None) -> str:
    """Why two lists are not paired, as a sentence; empty where they are, or where one is missing."""
    why = first.why_not_paired(second) if first is not None and second is not None else ""
    return f"They were not counted in pairs: {why}." if why else ""


def packed(right: Any) -> str:
    """One boolean per sample, as base64 of that many bits, the last byte filled up with zeros."""
    import numpy as np

    return base64.b64encode(np.packbits(np.asarray(right, dtype=np.bool_), bitorder="big").tobytes()).decode("ascii")


def labels_digest(labels: NDArray[np.int64]) -> str:
    """A hash of labels in their order: two lists of samples with other ones are not the same samples."""
    import hashlib

    return hashlib.blake2b(labels.astype("<i8").tobytes(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Pairs:
    """How often both answered rightly, one of them alone, and neither."""

    both: int
    first: int
    """The first alone."""
    second: int
    neither: int

    @classmethod
    def of(cls, first: Answered, second: Answered) -> Pairs:
        """Count the samples of two networks, which are the same."""
        one, other = first.right, second.right
        counts = ((one & other), (one & ~other), (~one & other), (~one & ~other))
        return cls(*(int(each.sum()) for each in counts))

    @property
    def samples(self) -> int:
        """All of them."""
        return self.both + self.first + self.second + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of the first minus that of the second."""
        return (self.first - self.second) / self.samples

    @property
    def error_reduction(self) -> float | None:
        """1 − error of the first / error of the second; None where the second has none."""
        errors = self.first + self.neither
        return (self.first - self.second) / errors if errors else None

    @property
    def reduction_or_loss(self) -> float | None:
        """The same; −LARGEST_LOSS where the second makes no error and the first does, which loses without bounds."""
        return -LARGEST_LOSS if self.error_reduction is None and self.second else self.error_reduction

    @property
    def p_value(self) -> float:
        """McNemar's exact test, two-sided: of the samples on which they differ, is each right equally often?"""
        from walkback.protocol.quantiles import coin_tail

        differ, fewer = self.first + self.second, min(self.first, self.second)
        return min(1.0, 2 * coin_tail(fewer, differ)) if differ else 1.0

    def difference_interval(self, level: float) -> Interval:
        """Newcombe's interval for a difference of paired proportions, in percentage points.

        Wilson's limits of both accuracies, joined with the correlation of the answers (his method 10).
        """
        from walkback.protocol.records import Interval
        from walkback.protocol.uncertainty import wilson

        n, one, other = self.samples, self.both + self.first, self.both + self.second
        low_1, high_1 = wilson(one / n, n, level)
        low_2, high_2 = wilson(other / n, n, level)
        phi, p, q = self._correlation(), one / n, other / n
        low = self.difference - _joined(p - low_1, high_2 - q, phi)
        high = self.difference + _joined(high_1 - p, q - low_2, phi)
        how = f"{PAIRED} {n} test samples (Newcombe); {SEEDS_NOT_INCLUDED}"
        return Interval(low=100 * low, high=100 * high, level=level, how=how)

    def _correlation(self) -> float:
        """φ of the two answers, with Newcombe's correction for continuity where it is positive."""
        a, b, c, d, n = self.both, self.first, self.second, self.neither, self.samples
        margins = (a + b) * (c + d) * (a + c) * (b + d)
        if not margins:
            return 0.0
        product = a * d - b * c
        return (max(product - n / 2, 0) if product > 0 else product) / sqrt(margins)

    def error_reduction_interval(self, level: float, share: float = 1.0) -> Interval | None:
        """The interval of the relative error reduction; None where both answered everything rightly.

        Bonett and Price's for a ratio of paired proportions, here of the errors: Wilson's limits of both among the
        samples that either got wrong, narrowed by what the pairs share. With a `share` below 1 the samples count as
        so many fewer.
        """
        from walkback.protocol.quantiles import normal_reach
        from walkback.protocol.records import Interval

        wrong = share * (self.first + self.second + self.neither)
        if not wrong:
            return None
        mine, others = share * (self.second + self.neither), share * (self.first + self.neither)
        share_1, share_2 = (mine + 1) / (wrong + 2), (others + 1) / (wrong + 2)
        apart = sqrt((share * (self.first + self.second) + 2) / ((mine + 1) * (others + 1)))
        narrowed = apart / (sqrt((1 - share_1) / (mine + 1)) + sqrt((1 - share_2) / (others + 1)))
        z = narrowed * normal_reach(level)
        (low_1, high_1), (low_2, high_2) = _wilson_limits(mine, wrong, z), _wilson_limits(others, wrong, z)
        return Interval(
            low=1 - high_1 / low_2 if low_2 > 0 else -LARGEST_LOSS,
            high=1 - low_1 / high_2,
            level=level,
            how=f"{PAIRED} {self.samples} test samples (Bonett and Price); {SEEDS_NOT_INCLUDED}",
        )


def pairs_with(first: Answered | None, second: Answered | None) -> Pairs | None:
    """The counts of two networks on the same samples; None where they are not known to be the same."""
    if first is None or second is None or first.why_not_paired(second):
        return None
    return Pairs.of(first, second)


LARGEST_LOSS = 1e6
"""What stands for a loss without bounds: the second network may make no errors at all."""


def _joined(one: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def _wilson_limits(count: float, samples: float, z: float) -> tuple[float, float]:
    middle, width = 2 * count + z * z, z * sqrt(z * z + 4 * count * (1 - count / samples))
    below = 2 * (samples + z * z)
    return max(0.0, (middle - width) / below), min(1.0, (middle + width) / below)


def unpaired_reduction(
    headline: float, headline_samples: int, baseline: float, baseline_samples: int, level: float
) -> Interval | None:
    """The interval of 1 − error/error of two networks that were scored apart: Wilson's limits of both errors, joined
    for a ratio of independent proportions (Donner and Zou); None where the limits leave no ratio."""
    from walkback.protocol.records import Interval
    from walkback.protocol.uncertainty import wilson

    mine, others = 1 - headline, 1 - baseline
    low_1, high_1 = wilson(mine, headline_samples, level)
    low_2, high_2 = wilson(others, baseline_samples, level)
    low, high = _ratio_limit(mine, low_1, others, high_2, -1), _ratio_limit(mine, high_1, others, low_2, 1)
    if low is None:
        return None
    return Interval(
        low=1 - high if high is not None else -LARGEST_LOSS,
        high=1 - max(low, 0.0),
        level=level,
        how=f"binomial, of two that were scored apart; {SEEDS_NOT_INCLUDED}",
    )


def _ratio_limit(mine: float, my_limit: float, others: float, other_limit: float, sign: int) -> float | None:
    """One limit of mine/others from the opposite limits of both."""
    top, bottom = my_limit * (2 * mine - my_limit), other_limit * (2 * others - other_limit)
    product = mine * others
    inside = product * product - top * bottom
    if inside < 0 or abs(bottom) < 1e-300:
        return None
    limit = (product + sign * sqrt(inside)) / bottom
    return limit if limit >= 0 else None
