"""How far an interval reaches, in standard errors: normal and Student's quantiles; and the tail of a fair coin.

Judging needs these three and nothing else of SciPy, so it does without: of the core's libraries that one would be the
largest. Tests hold all against SciPy, and quantiles against each other where they meet.
"""

from __future__ import annotations

from functools import lru_cache
from math import cos, log, pi, sin, sqrt, tan
from statistics import NormalDist

import numpy as np

HALVINGS = 60
"""Of an angle below π/2: as many as a double can tell apart."""


def normal_reach(level: float) -> float:
    """z with P(|Z| ≤ z) = level, Z normal."""
    return NormalDist().inv_cdf((1 + level) / 2)


def coin_tail(heads: int, throws: int) -> float:
    """P(H ≤ heads) of so many throws of a fair coin.

    A sum of products in logarithms, because 2^−throws itself is 0 from 1,075 throws on.
    """
    rising = np.arange(1, heads + 1)
    logs = np.append(0.0, np.cumsum(np.log((throws + 1 - rising) / rising)))
    largest = float(logs.max())
    return min(1.0, float(np.exp(logs - largest).sum() * np.exp(largest - throws * log(2))))


@lru_cache(maxsize=256)
def student_reach(degrees: int, level: float) -> float:
    """t with P(|T| ≤ t) = level, T Student's with a whole number of degrees of freedom ν ≥ 1.

    With t = √ν·tan θ the probability rises with θ, so θ is found by halving.
    """
    low, high = 0.0, pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(degrees, middle) < level else (low, middle)
    return sqrt(degrees) * tan((low + high) / 2)


def _within(degrees: int, angle: float) -> float:
    """P(|T| ≤ √ν·tan θ), a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4).

    ν even: sin θ·(1 + ½cos²θ + (1·3)/(2·4)·cos⁴θ + … up to cos^(ν−2)θ)
    ν odd: (θ + sin θ·(cos θ + ⅔cos³θ + (2·4)/(3·5)·cos⁵θ + … up to cos^(ν−2)θ))·2/π, of which ν = 1 has θ alone
    """
    odd = degrees % 2
    count = np.arange(1 + odd, degrees - 1, 2)
    terms = np.cumprod(np.append(1.0, cos(angle) ** 2 * count / (count + 1)))
    total = sin(angle) * float(terms.sum())
    if not odd:
        return total
    return 2 / pi * (angle + (cos(angle) * total if degrees > 1 else 0.0))
