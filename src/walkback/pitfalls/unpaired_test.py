"""14: a test for independent answers on answers that are not."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.protocol.pairing import Pairs

SEED = 0
WIDTH, DEPTH, TRAINING, EPOCHS, MORE_EPOCHS = 64, 2, 1280, 20, 1
SETS, SAMPLES = 100, 1000
STEPS, SEQUENCES, UNSEEN = 60, 100, 11
LEVEL, Z = 0.95, 1.96

Limits = tuple[float, float]


def unpaired_interval(pairs: Pairs) -> Limits:
    """The difference of two accuracies ± 1.96 standard errors, as two independent binomials have them; in points."""
    n, one, other = pairs.samples, pairs.both + pairs.first, pairs.both + pairs.second
    variance = sum(right / n * (1 - right / n) / n for right in (one, other))
    return 100 * (pairs.difference - Z * sqrt(variance)), 100 * (pairs.difference + Z * sqrt(variance))


def paired_interval(pairs: Pairs) -> Limits:
    """The same difference, as walkback has it."""
    interval = pairs.difference_interval(LEVEL)
    return interval.low, interval.high


def holding(limits: Sequence[Limits], value: float) -> int:
    """How many of the intervals hold a value."""
    return sum(low <= value <= high for low, high in limits)


def reach(limits: Sequence[Limits]) -> float:
    """Half the width of the intervals, on average."""
    return sum(high - low for low, high in limits) / len(limits) / 2


def two_networks() -> tuple[Tensor, Tensor]:
    """Which samples a network answers rightly, and which it did an epoch of training before: (SETS, SAMPLES) each."""
    import torch

    from walkback.pitfalls.residual_mlp import DirectFeedback, ResidualMLP, clusters, right_answers, seeded, train

    with seeded(SEED):
        (inputs, targets), (held, labels) = clusters(TRAINING, SETS * SAMPLES)
        model = ResidualMLP(WIDTH, DEPTH)
        feedback = DirectFeedback(DEPTH + 1, WIDTH, torch.Generator().manual_seed(SEED))
        train(model, feedback, inputs, targets, EPOCHS)
        before = right_answers(model, held, labels)
        train(model, feedback, inputs, targets, MORE_EPOCHS)
        after = right_answers(model, held, labels)
    return after.view(SETS, SAMPLES), before.view(SETS, SAMPLES)


def counted(after: Tensor, before: Tensor) -> list[Pairs]:
    """One network beside the other, on each test set."""
    from walkback.protocol.pairing import Answered, Pairs

    sets = zip(after.numpy(), before.numpy(), strict=True)
    return [Pairs.of(Answered.of(one), Answered.of(other)) for one, other in sets]


def right_tokens() -> Tensor:
    """Which tokens a language model tells rightly, (SETS, SEQUENCES, tokens); one stride of four was never trained."""
    import torch

    from walkback.pitfalls.residual_mlp import seeded
    from walkback.pitfalls.shifted_labels import STRIDES, language_model, sequences, train

    with seeded(SEED):
        model = language_model()
        train(model, STEPS)
        held = sequences(SETS * SEQUENCES, (*STRIDES, UNSEEN))
        with torch.no_grad():
            said = torch.cat([model(part)["logits"].argmax(dim=-1) for part in torch.split(held, 500)])
    return (said[:, :-1] == held[:, 1:]).view(SETS, SEQUENCES, -1)


def reproduce() -> Reproduction:
    """Both kinds of interval on a hundred test sets, against what is true over all of them."""
    from walkback.present.numbers import percent
    from walkback.protocol.uncertainty import wilson

    after, before = two_networks()
    pairs, better = counted(after, before), 100 * float(after.double().mean() - before.double().mean())
    unpaired, paired = [unpaired_interval(p) for p in pairs], [paired_interval(p) for p in pairs]
    told_apart, shown = SETS - holding(unpaired, 0), sum(p.p_value < 1 - LEVEL for p in pairs)
    tokens = right_tokens()
    true, scores = float(tokens.double().mean()), tokens.double().mean(dim=(1, 2)).tolist()
    over_tokens, over_sequences = (
        holding([wilson(score, samples, LEVEL) for score in scores], true) for samples in (tokens[0].numel(), SEQUENCES)
    )
    return Reproduction(
        f"A residual MLP (d = {WIDTH}, {DEPTH} blocks) trained by DFA for {EPOCHS} epochs, and the same network "
        f"{MORE_EPOCHS} epoch later, on {SETS} test sets of {SAMPLES:,} samples: over all of them the later one is "
        f"{better:.2f} points better. And a causal language model that knows three strides of four, on {SETS} test "
        f"sets of {SEQUENCES} sequences of {tokens.shape[2]} tokens: over all of them it tells {percent(true)} of the "
        "tokens.",
        (
            Row("how far a 95 % interval of the difference reaches", _points(unpaired), _points(paired)),
            Row("of these intervals, those that hold it", _of(holding(unpaired, better)), _of(holding(paired, better))),
            Row("test sets that show that the networks differ", _of(told_apart), f"{_of(shown)} (McNemar)"),
            Row(
                "95 % intervals of the token accuracy that hold it",
                f"{_of(over_tokens)} (all tokens)",
                f"{_of(over_sequences)} (each sequence counted once)",
            ),
        ),
        (
            Claim("the later network is better by half a point or more", better >= 0.5),
            Claim("the unpaired test shows it on less than a tenth of the test sets", told_apart < SETS / 10),
            Claim("McNemar's test shows it on more than half of them", shown > SETS / 2),
            Claim("the paired intervals hold it nine times in ten or more", holding(paired, better) >= 0.9 * SETS),
            Claim("intervals over tokens hold the true accuracy less than half the time", over_tokens < SETS / 2),
            Claim("with each sequence counted once they do nine times in ten or more", over_sequences >= 0.9 * SETS),
        ),
    )


def _of(count: int) -> str:
    return f"{count} of {SETS}"


def _points(limits: Sequence[Limits]) -> str:
    return f"± {reach(limits):.1f} points"


PITFALL = Pitfall(
    number=14,
    title="an unpaired test on paired answers",
    explanation="Two networks that are judged on the same test samples find the same samples hard. Only those count on "
    "which they differ, but two independent binomials add the variance of all: the interval is too wide, and a true "
    "difference is called noise. Where answers belong together, as the tokens of a sequence do, the same formula errs "
    "the other way: they count as so many samples, and the interval is too narrow.",
    lies="right = model(x).argmax(1) == y\nright_baseline = baseline(x).argmax(1) == y\n"
    "p_value = scipy.stats.ttest_ind(right, right_baseline).pvalue",
    instead="right = model(x).argmax(1) == y\nright_baseline = baseline(x).argmax(1) == y\n"
    "alone, baseline_alone = (right & ~right_baseline).sum(), (right_baseline & ~right).sum()\n"
    "p_value = scipy.stats.binomtest(int(alone), int(alone + baseline_alone)).pvalue   # McNemar's test",
    question="Is a difference between networks tested in pairs over the samples that both answered, and is what counts "
    "as one sample independent of the others?",
    avoided="Which samples each network answers rightly is kept, and the margin over a baseline and depth gain are "
    "counted in pairs, by Newcombe's interval and McNemar's exact test; a sample with several answers counts once. "
    "Recorded runs may not say which samples were answered rightly: their margin has the interval of two accuracies "
    "that were counted apart, which is wider.",
    where="walkback.protocol.pairing:Pairs",
    reproduce=reproduce,
)
