"""How finite differences are taken, and when they say that a gradient is right or wrong. No torch.

`finite_differences.py` takes them of torch's networks, `walkback.jax` of JAX's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DIRECTIONS = 4
"""How many directions a check rests on at least."""
DIRECTION_SEED = 20260415
ROUNDING = 1e-13
"""What a sum of fp64 numbers that a network computed may be wrong by, relative to its terms."""
ROUNDING_IN_SINGLE = 1e-6


class Rung(NamedTuple):
    """One choice of step size, relative to the size of h."""

    step: float
    settled: float
    """How far two estimates of one derivative may lie apart, relative to the gradient."""
    tolerance: float
    """Up to which error the gradient is right."""


FINE = (Rung(1e-6, 1e-3, 1e-3), Rung(1e-8, 1e-3, 1e-3))
COARSE = (Rung(1e-3, 1e-2, 1e-2), Rung(1e-2, 5e-2, 5e-2))
"""For networks that compute in fp32 inside, whatever their parameters are in: small steps drown in rounding there."""
LARGE_STEPS, STEPPED = (1e-2, 1e-1), 0.5
"""Over these distances a step shows, by this much of the gradient's size in the root mean square."""
CLEARLY_WRONG = 0.3
"""The error of most directions at every step size from which a gradient is wrong, kinks or not."""


@dataclass(frozen=True)
class Agreement:
    """How a gradient compares with finite differences."""

    agrees: bool | None
    """None where finite differences do not settle."""
    error: float
    """The largest over the directions that were used; NaN where there are none."""
    directions: int
    kinks: int
    """How many directions were left out."""
