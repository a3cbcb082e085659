"""What a reader should know about a credit, in plain sentences, from a few numbers per site. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PARALLEL = 0.999
"""A mean cosine from which a credit is parallel to the gradient: BP with 1 % of noise has 0.99995, with 4 % 0.9992."""
LEAK_COSINE = 0.3
"""Neighbouring credits this parallel are no accident of independent feedback, in any but tiny widths."""
BACKPROPAGATION = ("bp", "backprop", "backpropagation")
"""Names that say already what a credit parallel to the gradient is."""


@dataclass(frozen=True)
class CreditSeen:
    """What all samples showed of a credit, site by site."""

    non_finite: Sequence[bool]
    """Whether any sample's credit holds NaN or Inf."""
    zero: Sequence[bool]
    """Whether every sample's is exactly zero."""
    constant: Sequence[bool]
    """Whether every sample's is the same, to rounding."""
    cosines: Sequence[float]
    """The mean cosine with the true gradient."""
    neighbours: Sequence[float]
    """The mean cosine of neighbouring sites; none where their widths differ."""
    width: int
    """Of the first site."""

    def warnings(self, independent: bool, samples: int, checked: bool, called: str = "") -> list[str]:
        """What a reader should know.

        Whether it is parallel to backpropagation is said where the gradient was checked to be the network's, and the
        method is not called that.
        """
        found = []
        if any(self.non_finite):
            found.append(f"the credit holds NaN or Inf at {_sites(self.non_finite)}.")
        if any(self.zero):
            found.append(
                f"the credit is exactly zero for every sample at {_sites(self.zero)}: nothing is taught there."
            )
        dead = [same and not zero for same, zero in zip(self.constant, self.zero, strict=True)]
        if samples > 1 and any(dead):
            found.append(f"the credit is the same for every sample at {_sites(dead)}: it carries no error.")
        if checked:
            found += self._parallel(called.strip().lower() in BACKPROPAGATION)
        return found + (list(self._leaks()) if independent else [])

    def _parallel(self, expected: bool) -> list[str]:
        """Whether the method is backpropagation in disguise, or nearly so."""
        if all(cosine <= -PARALLEL for cosine in self.cosines):
            return [
                "the credit points against backpropagation: its mean cosine with the BP gradient is at most "
                f"{max(self.cosines):.5f} at every site. A credit has the sign of a gradient, so that h should move "
                "along −a; is this one the update?"
            ]
        if expected or not all(cosine >= PARALLEL for cosine in self.cosines):
            return []
        return [
            "the credit is parallel to backpropagation: its mean cosine with the BP gradient is at least "
            f"{min(self.cosines):.5f} at every site."
        ]

    def _leaks(self) -> Iterator[str]:
        # Random directions in d dimensions have cosines of about 1/√d.
        limit = max(LEAK_COSINE, 4 / self.width**0.5)
        # NaN, of a site without credit, is no maximum of anything here, as it is not in torch's.
        if not self.neighbours or any(cosine != cosine for cosine in self.neighbours):
            return
        worst = max(self.neighbours)
        if worst > limit:
            site = list(self.neighbours).index(worst)
            yield (
                f"the credits of sites {site} and {site + 1} have a mean cosine of {worst:.2f}, where independent "
                "feedback gives about 0: the feedback leaks, for instance through a skip that still carries gradient."
            )


def _sites(mask: Sequence[bool]) -> str:
    numbers = [str(site) for site, there in enumerate(mask) if there]
    return f"site{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
