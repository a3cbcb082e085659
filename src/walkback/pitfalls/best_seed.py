"""15: the best of several seeds, reported as if there had been one."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

SEED, SEEDS, SPLITS = 0, 20, 1000
WIDTH, DEPTH, EPOCHS = 64, 2, 10
TRAINING, TEST, FRESH = 1280, 512, 20_000
LEVEL, MARGIN = 0.95, 0.02
"""What (d) asks of a network over its frozen baseline, as a share."""


class Scores(NamedTuple):
    """The accuracies of one seed."""

    test: float
    """On the test samples that all are compared on."""
    fresh: float
    """On many others."""


def expected_best(scores: Sequence[float], tried: int) -> float:
    """The mean, over all choices of so many of the scores, of the best among them."""
    ordered = sorted(scores)
    choices = comb(len(ordered), tried)
    return sum(score * comb(below, tried - 1) / choices for below, score in enumerate(ordered))


def against_itself(scores: Sequence[float]) -> tuple[int, int]:
    """Of `SPLITS` divisions of the seeds in two halves, how many let the method beat itself by more than `MARGIN`.

    First by the best of one half against the mean of the other; then by the means, where Student's interval of their
    difference leaves out 0.
    """
    import torch

    from walkback.pitfalls.residual_mlp import seeded
    from walkback.protocol.quantiles import student_reach

    known, half, by_best, by_means = torch.tensor(scores, dtype=torch.float64), len(scores) // 2, 0, 0
    with seeded(SEED):
        orders = [torch.randperm(len(scores)) for _ in range(SPLITS)]
    for order in orders:
        ours, theirs = known[order[:half]], known[order[half:]]
        by_best += bool(ours.max() - theirs.mean() > MARGIN)
        error = ((ours.var() + theirs.var()) / half).sqrt()
        difference = ours.mean() - theirs.mean()
        by_means += bool(difference > MARGIN and difference > student_reach(2 * half - 2, LEVEL) * error)
    return by_best, by_means


def trained() -> list[Scores]:
    """The same network, data and training under `SEEDS` seeds."""
    import torch

    from walkback.pitfalls.residual_mlp import DirectFeedback, ResidualMLP, clusters, right_answers, seeded, train

    with seeded(SEED):
        (inputs, targets), *held = clusters(TRAINING, TEST, FRESH)
    found = []
    for seed in range(SEEDS):
        with seeded(seed):
            model = ResidualMLP(WIDTH, DEPTH)
            feedback = DirectFeedback(DEPTH + 1, WIDTH, torch.Generator().manual_seed(seed))
            train(model, feedback, inputs, targets, EPOCHS)
            found.append(Scores(*(float(right_answers(model, x, y).double().mean()) for x, y in held)))
    return found


def reproduce() -> Reproduction:
    """One method under twenty seeds: the best of them, their mean, and the method against itself."""
    import numpy as np

    from walkback.present.numbers import percent
    from walkback.protocol.uncertainty import mean_interval

    scores = trained()
    test, fresh = (np.array(column) for column in zip(*scores, strict=True))
    best, mean, sd = int(test.argmax()), float(test.mean()), float(test.std(ddof=1))
    interval = mean_interval(test)
    assert interval is not None
    lead, lasting = float(test[best]) - mean, float(fresh[best] - fresh.mean())
    by_best, by_means = against_itself(test.tolist())
    tries = (1, 3, 5, 10)
    bests = [expected_best(test.tolist(), tried) for tried in tries]
    return Reproduction(
        f"A residual MLP (d = {WIDTH}, {DEPTH} blocks) on {TRAINING} made-up samples, trained by DFA for {EPOCHS} "
        f"epochs under {SEEDS} seeds, on one test set of {TEST} samples.",
        (
            Row(
                "accuracy of the method",
                f"{percent(float(test[best]))} (best of {SEEDS})",
                f"{percent(mean)} ± {100 * sd:.1f} over seeds; of the mean, 95 %: "
                f"{percent(interval.low)} … {percent(interval.high)}",
            ),
            Row(
                f"expected best of {', '.join(map(str, tries[1:]))} seeds; of one",
                ", ".join(map(percent, bests[1:])),
                percent(bests[0]),
            ),
            Row(
                f"of {SPLITS:,} halvings of the seeds, those in which the method beats itself by 2 points",
                f"{by_best:,} (best against mean)",
                f"{by_means:,} (mean against mean, 95 %)",
            ),
            Row(
                f"the best seed's lead over the mean; on {FRESH:,} other samples",
                f"{100 * lead:+.1f} points",
                f"{100 * lasting:+.1f} points",
            ),
        ),
        (
            Claim("the best seed lies above the interval of the mean by two points or more",
                  float(test[best]) > interval.high + 0.02),
            Claim("three seeds make the expected best a point better or more", bests[1] > bests[0] + 0.01),
            Claim("by its best of ten the method beats itself, as (d) counts it, nine times in ten or more",
                  by_best >= 0.9 * SPLITS),
            Claim("by means it does so less than one time in ten", by_means < SPLITS / 10),
            Claim("on other samples the best seed's lead is smaller", lasting < lead),
        ),
    )  # fmt: skip


PITFALL = Pitfall(
    number=15,
    title="the best of several seeds, reported as one",
    explanation="The best of n seeds grows with n alone: of ten that scatter by a standard deviation of s, it is "
    "expected 1.5 s above their mean. A method that was tried ten times then beats one that was tried once, and beats "
    "itself. Where the best is picked on the test samples, part of its lead is their luck and does not come again.",
    lies="accuracies = [train_and_test(seed) for seed in range(10)]\naccuracy = max(accuracies)",
    instead="accuracies = [train_and_test(seed) for seed in range(10)]\n"
    "accuracy, spread = statistics.mean(accuracies), statistics.stdev(accuracies)   # over all ten",
    question="Is every seed that was trained in the number that is reported, with their count and their spread?",
    avoided="Seeds are combined by mean, standard deviation and Student's interval, with the verdict of each; a seed "
    "is never picked, and seeds that disagree are mixed.",
    where="walkback.protocol.seeds:combine",
    reproduce=reproduce,
)
