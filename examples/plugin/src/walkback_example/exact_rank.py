"""A pitfall: a rank that counts directions that hardly anything lies along."""

from __future__ import annotations

from walkback.pitfalls import Claim, Pitfall, Reproduction, Row


def reproduce() -> Reproduction:
    """128 states along one direction, with noise of one in ten thousand, in both ways of counting."""
    import numpy as np

    generator = np.random.default_rng(0)
    line = np.outer(generator.standard_normal(128), np.ones(16))
    states = line + 1e-4 * generator.standard_normal((128, 16))
    exact = int(np.linalg.matrix_rank(states))  # noqa: EX001
    sizes = np.linalg.svd(states - states.mean(axis=0), compute_uv=False)
    shares = sizes / sizes.sum()
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    return Reproduction(
        "128 states of 16 units that differ along one direction.",
        (Row("rank of h_L", str(exact), f"{effective:.2f}"),),
        (
            Claim("matrix_rank calls a collapsed network full", exact == 16),
            Claim("the effective rank says one", effective < 1.1),
        ),
    )


PITFALL = Pitfall(
    number="exact_rank",
    title="Rounding counts as a direction",
    explanation="The rank of a matrix counts every direction beyond rounding. States that all lie along one direction "
    "have noise in all others, so their rank is full.",
    lies="rank = torch.linalg.matrix_rank(h)",
    instead="rank = torch.linalg.matrix_rank(h, rtol=1e-3)",
    question="Does every rank come with the tolerance that it was counted at?",
    avoided="(e) weighs each direction by its share of all, so directions of noise hardly count.",
    where="walkback_example.effective_rank:EffectiveRank",
    reproduce=reproduce,
)
