"""9: NaN passes every threshold."""

from __future__ import annotations

import math

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

GROWTH_CEILING, GRADIENT_FLOOR = 50.0, 1e-7


def naive_verdict(growth: float, gradient: float) -> str:
    """The thresholds as they are usually written."""
    if growth > GROWTH_CEILING or gradient < GRADIENT_FLOOR:
        return "needs walk-back"
    return "trustworthy"


def reproduce() -> Reproduction:
    """A diverged network, judged by plain comparisons and by walkback."""
    from walkback.protocol.judge import judge
    from walkback.protocol.records import Measurements

    nan = math.nan
    ours = judge(Measurements(residual_norms=[8.7, nan], bp_grad_norms=[nan, nan], headline_acc=0.1)).verdict
    healthy = judge(Measurements(residual_norms=[8.7, 8.8], bp_grad_norms=[8e-3, 8e-3])).verdict
    wrong = naive_verdict(nan, nan)
    return Reproduction(
        "‖h_1‖ and ‖g‖ are NaN, as after a division of 0 by 0 in training.",
        (
            Row("nan > 50, nan < 1e-7", f"{nan > GROWTH_CEILING}, {nan < GRADIENT_FLOOR}", "neither can be said"),
            Row("verdict", wrong, ours, "a diverged run reads trustworthy"),
        ),
        (
            Claim("plain comparisons call a diverged network trustworthy", wrong == "trustworthy"),
            Claim("walkback walks it back, for non-finite values", ours == "needs walk-back: non-finite values"),
            Claim("a finite network is judged as before", healthy == "trustworthy" == naive_verdict(1.01, 8e-3)),
        ),
    )


PITFALL = Pitfall(
    number=9,
    title="NaN passes every threshold",
    explanation="Every comparison with NaN is false. A check that raises its alarm when a figure is too large, or too "
    "small, stays silent on a network that has diverged: the worst run of a sweep reads as trustworthy.",
    lies='def check(h):\n    if h.norm() > 50: raise ValueError("exploded")',
    instead='def check(h):\n    if not h.norm() <= 50: raise ValueError("exploded")',
    question="Is every figure checked to be finite before it is compared with a threshold?",
    avoided="NaN and Inf are looked for before any comparison, and fire with the reason “non-finite values”.",
    where="walkback.protocol.diagnostics.base:ReadingMaker",
    reproduce=reproduce,
    published="a diverged run reads trustworthy",
)
