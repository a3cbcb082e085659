"""Is the method what it says it is? Checks on the credit alone, as warnings beside the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor

from walkback.protocol import numerics
from walkback.protocol.capture import Capture
from walkback.protocol.credit_words import PARALLEL as PARALLEL
from walkback.protocol.credit_words import CreditSeen


@dataclass
class CreditFacts:
    """What the identity checks need, folded batch by batch into a few numbers per site."""

    gaps: list[Tensor] = field(default_factory=list)
    """1 − cos(a_l, g_l), (sites, B) per batch."""
    zero: Tensor | None = None
    non_finite: Tensor | None = None
    constant: Tensor | None = None
    neighbour_cosines: list[Tensor] = field(default_factory=list)
    widths: tuple[int, ...] = ()
    _first: list[Tensor] = field(default_factory=list)

    def add(self, credits: Sequence[Tensor], capture: Capture) -> None:
        """Fold in one batch of credits, one vector per sample and site."""
        if not self._first:
            self._first = [credit[:1].double() for credit in credits]
            self.widths = tuple(credit.shape[1] for credit in credits)
        pairs = list(zip(credits, capture.grad_vectors, strict=True))
        self.gaps.append(torch.stack([1 - numerics.cosines(a, g) for a, g in pairs]))
        norms = torch.stack([numerics.norms(a) for a in credits])
        self.zero = _both(self.zero, (norms == 0).all(dim=1))
        self.non_finite = _either(self.non_finite, (~norms.isfinite()).any(dim=1))
        same = torch.stack([_same_as(a, first) for a, first in zip(credits, self._first, strict=True)])
        self.constant = _both(self.constant, same)
        if len(set(self.widths)) == 1:
            neighbours = [numerics.cosines(a, b) for a, b in pairwise(credits)]
            self.neighbour_cosines.append(torch.stack(neighbours))

    @classmethod
    def of_all(cls, several: Sequence[CreditFacts]) -> CreditFacts:
        """The facts of several shares of the samples as one."""
        whole = several[0]
        for other in several[1:]:
            if other.zero is None or other.non_finite is None or other.constant is None:
                continue
            if whole._first:
                same = [_same_as(mine, first) for mine, first in zip(other._first, whole._first, strict=True)]
                other.constant = other.constant & torch.stack(same)
            whole = replace(
                whole if whole._first else other,
                gaps=whole.gaps + other.gaps,
                zero=_both(whole.zero, other.zero),
                non_finite=_either(whole.non_finite, other.non_finite),
                constant=_both(whole.constant, other.constant),
                neighbour_cosines=whole.neighbour_cosines + other.neighbour_cosines,
            )
        return whole

    def neighbours(self) -> Tensor | None:
        """Mean cosine between the credits of neighbouring sites."""
        return torch.cat(self.neighbour_cosines, dim=1).nanmean(dim=1) if self.neighbour_cosines else None

    def warnings(self, independent: bool, samples: int, checked: bool = True, called: str = "") -> list[str]:
        """What a reader should know about the credit, in plain sentences.

        Whether it is parallel to backpropagation is said where the gradient was checked to be the network's, and the
        method is not called that.
        """
        if self.zero is None or self.constant is None or self.non_finite is None:
            return []
        neighbours = self.neighbours()
        seen = CreditSeen(
            non_finite=self.non_finite.tolist(),
            zero=self.zero.tolist(),
            constant=self.constant.tolist(),
            cosines=(1 - torch.cat(self.gaps, dim=1).nanmean(dim=1)).tolist(),
            neighbours=neighbours.tolist() if neighbours is not None else (),
            width=self.widths[0],
        )
        return seen.warnings(independent, samples, checked, called)


def _same_as(credits: Tensor, first: Tensor) -> Tensor:
    """Whether every sample's credit equals the first one's, to rounding."""
    difference = numerics.norms(credits.double() - first)
    return (difference <= 1e-6 * numerics.norms(first)).all()


def _both(before: Tensor | None, now: Tensor) -> Tensor:
    return now if before is None else before & now


def _either(before: Tensor | None, now: Tensor) -> Tensor:
    return now if before is None else before | now
