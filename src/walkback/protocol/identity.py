"""Is the method what it says it is? Checks on the credit alone, as warnings beside the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor

from walkback.protocol import numerics
from walkback.protocol.capture import Capture

PARALLEL = 0.999
"""A mean cosine from which a credit is parallel to the gradient: BP with 1 % of noise has 0.99995, with 4 % 0.9992."""
LEAK_COSINE = 0.3
"""Neighbouring credits this parallel are no accident of independent feedback, in any but tiny widths."""
BACKPROPAGATION = ("bp", "backprop", "backpropagation")
"""Names that say already what a credit parallel to the gradient is."""


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
        found = []
        if self.non_finite.any():
            found.append(f"the credit holds NaN or Inf at {_sites(self.non_finite)}.")
        if self.zero.any():
            found.append(
                f"the credit is exactly zero for every sample at {_sites(self.zero)}: nothing is taught there."
            )
        dead = self.constant & ~self.zero
        if samples > 1 and dead.any():
            found.append(f"the credit is the same for every sample at {_sites(dead)}: it carries no error.")
        if checked:
            found += self._parallel(called.strip().lower() in BACKPROPAGATION)
        return found + (self._leaks() if independent else [])

    def _parallel(self, expected: bool = False) -> list[str]:
        """Whether the method is backpropagation in disguise, or nearly so."""
        cosines = 1 - torch.cat(self.gaps, dim=1).nanmean(dim=1)
        if bool((cosines <= -PARALLEL).all()):
            return [
                "the credit points against backpropagation: its mean cosine with the BP gradient is at most "
                f"{float(cosines.max()):.5f} at every site. A credit has the sign of a gradient, so that h should move "
                "along −a; is this one the update?"
            ]
        if expected or not bool((cosines >= PARALLEL).all()):
            return []
        return [
            "the credit is parallel to backpropagation: its mean cosine with the BP gradient is at least "
            f"{float(cosines.min()):.5f} at every site."
        ]

    def _leaks(self) -> list[str]:
        neighbours = self.neighbours()
        if neighbours is None or neighbours.numel() == 0:
            return []
        # Random directions in d dimensions have cosines of about 1/√d.
        limit = max(LEAK_COSINE, 4 / self.widths[0] ** 0.5)
        worst = float(neighbours.max())
        if not worst > limit:
            return []
        site = int(neighbours.argmax())
        return [
            f"the credits of sites {site} and {site + 1} have a mean cosine of {worst:.2f}, where independent feedback "
            "gives about 0: the feedback leaks, for instance through a skip that still carries gradient."
        ]


def _same_as(credits: Tensor, first: Tensor) -> Tensor:
    """Whether every sample's credit equals the first one's, to rounding."""
    difference = numerics.norms(credits.double() - first)
    return (difference <= 1e-6 * numerics.norms(first)).all()


def _both(before: Tensor | None, now: Tensor) -> Tensor:
    return now if before is None else before & now


def _either(before: Tensor | None, now: Tensor) -> Tensor:
    return now if before is None else before | now


def _sites(mask: Tensor) -> str:
    numbers = ", ".join(str(int(i)) for i in mask.nonzero().flatten())
    return f"site {numbers}" if int(mask.sum()) == 1 else f"sites {numbers}"
