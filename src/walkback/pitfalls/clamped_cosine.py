"""2: `F.cosine_similarity` clamps each norm at 1e-8."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

TRUE_COSINE, SMALL_NORM = 0.018101, 5e-10


def reproduce() -> Reproduction:
    """A vector of norm 5e-10 at a known angle to a unit vector."""
    import torch
    import torch.nn.functional as F

    from walkback.protocol import numerics

    credit = torch.tensor([1.0, 0.0])
    gradient = SMALL_NORM * torch.tensor([TRUE_COSINE, (1 - TRUE_COSINE**2) ** 0.5])
    wrong = float(F.cosine_similarity(credit, gradient, dim=0))  # noqa: WB002
    right = float(numerics.cosines(credit, gradient))
    written = float(F.cosine_similarity(credit.double(), gradient.double(), dim=0, eps=1e-150))
    return Reproduction(
        f"A unit vector and one of norm {SMALL_NORM:g}, made to have the cosine {TRUE_COSINE} with it.",
        (
            Row("cosine", f"{wrong:.6f}", f"{right:.6f}", "0.000905 instead of 0.018101"),
            Row("times too low", f"{right / wrong:.1f}", "1.0", "20×"),
        ),
        (
            Claim("the clamped cosine is 0.000905", round(wrong, 6) == 0.000905),
            Claim("walkback's is 0.018101", round(right, 6) == TRUE_COSINE),
            Claim("so is that of the line to write instead", round(written, 6) == TRUE_COSINE),
        ),
    )


PITFALL = Pitfall(
    number=2,
    title="a cosine that clamps norms at 1e-8",
    explanation="torch divides by max(‖x‖, 1e-8). Where the gradient is smaller than that, as it can be in a network "
    "whose stream has exploded before a terminal norm, the cosine shrinks with its size: a perfectly aligned credit "
    "reads as unaligned. Code that sets small entries to zero first goes wrong the same way.",
    lies="alignment = F.cosine_similarity(credit, gradient)",
    instead="alignment = F.cosine_similarity(credit.double(), gradient.double(), eps=1e-150)",
    question="Is every cosine taken in float64, without a clamp that a gradient can fall under?",
    avoided="Cosines are taken in fp64 without an eps; a zero vector gives NaN, which is reported and not averaged.",
    where="walkback.protocol.numerics:cosines",
    reproduce=reproduce,
    published="‖b‖ = 5e-10: 0.000905 instead of 0.018101, 20× low",
)
