"""Claims on the penalised methods side by side: what their cosine says, and what the loss does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from walkback.lab.evidence import functional_on_record as functional
from walkback.lab.evidence.alignment_claims import DEVIATIONS, against, has_deep_alignment
from walkback.lab.evidence.claim import ACCURACY_TOLERANCE, COSINE_TOLERANCE, Claim, Outcome, near, same_scale, weighed
from walkback.lab.evidence.deciding import accuracy, count, last, mean, norm_words, passes, span
from walkback.lab.evidence.penalty_claims import repair_parts, repair_words, repaired
from walkback.lab.evidence.results import Results
from walkback.lab.evidence.source_deciding import (
    AS_SOURCE,
    COMMANDS,
    PENALTY,
    block_null,
    deep_block_cosine,
    of_each_seed,
    shared_seeds,
)
from walkback.present.numbers import written

FAR = 2.0
"""How many times as large a nudge or a fall of the loss is that is far larger."""
WEAKEST = "dfa:penalty=0.0001"


class Published(NamedTuple):
    """The published figures of one method with λ = 1e-2, means over three seeds."""

    accuracy: float
    cosine: float
    rho: float
    nudge: float
    loss_decrease: float


PUBLISHED = {
    "dfa": Published(0.360, 0.151, 0.080, -4.98e-5, 0.095),
    "state_bridge": Published(0.453, 0.322, 0.402, -1.93e-3, 0.447),
    "credit_bridge": Published(0.360, 0.679, 0.464, -4.26e-4, 0.121),
}


def _measured(results: Results, method: str) -> dict[int | None, Published]:
    """The same figures of each seed of a method."""
    label = f"{method}:penalty=0.01"
    reports = of_each_seed(results, PENALTY, label)
    runs = {run.seed: run for run in results.run_files(PENALTY, label)}
    return {
        seed: Published(
            accuracy(reports[seed]),
            deep_block_cosine(reports[seed]),
            functional.deep_rho(runs[seed]),
            functional.deep_nudge(runs[seed]),
            functional.loss_decrease(runs[seed]),
        )
        for seed in shared_seeds(reports, runs)
    }


Three = tuple[Published, Published, Published]
ORDERS: dict[str, Callable[[Three], bool]] = {
    "the cosine": lambda of: of[0].cosine < of[1].cosine < of[2].cosine,
    "accuracy": lambda of: (
        of[1].accuracy > max(of[0].accuracy, of[2].accuracy) + ACCURACY_TOLERANCE
        and abs(of[0].accuracy - of[2].accuracy) <= ACCURACY_TOLERANCE
    ),
    "the nudge": lambda of: of[1].nudge < 0 and of[1].nudge <= FAR * min(of[0].nudge, of[2].nudge),
    "the training loss": lambda of: (
        of[1].loss_decrease > 0 and of[1].loss_decrease >= FAR * max(of[0].loss_decrease, of[2].loss_decrease)
    ),
}
"""Of DFA, State Bridge and Credit Bridge of one seed, whether each order is the published one."""


def _triangle(results: Results) -> Outcome:
    found = {method: _measured(results, method) for method in PUBLISHED}
    dfa, state, credit = found.values()
    threes = [(dfa[seed], state[seed], credit[seed]) for seed in shared_seeds(dfa, state, credit)]
    agree = {name: [holds(of) for of in threes] for name, holds in ORDERS.items()}
    means = {
        method: Published(*(mean(each) for each in zip(*seeds.values(), strict=True)))
        for method, seeds in found.items()
    }
    close = {method: near_published(means[method], PUBLISHED[method]) for method in PUBLISHED}
    figures = {f"{figure} of {method} is as published": [c] for method in close for figure, c in close[method]}
    words = ", ".join(f"{name} on {count(seeds, 'seeds')}" for name, seeds in agree.items())
    words = f"ordered as published: {words}; {'; '.join(map(_words, means, means.values()))}"
    return weighed(words, {f"{name} orders as published": seeds for name, seeds in agree.items()}, figures)


def near_published(found: Published, published: Published) -> list[tuple[str, bool]]:
    """Accuracy within 3 points, cosine and ρ within 0.05, the nudge within a factor of ten and of the same sign."""
    return [
        ("the accuracy", near(found.accuracy, published.accuracy, published.accuracy)),
        ("the cosine", near(found.cosine, published.cosine, published.cosine, COSINE_TOLERANCE)),
        ("ρ", near(found.rho, published.rho, published.rho, COSINE_TOLERANCE)),
        ("the nudge", same_scale(-found.nudge, -published.nudge, -published.nudge)),
    ]


def _words(method: str, of: Published) -> str:
    return (
        f"{method} accuracy {written(of.accuracy)}, cosine {written(of.cosine)}, ρ {written(of.rho)}, nudge "
        f"{written(of.nudge)}, training loss −{written(of.loss_decrease)}"
    )


def _clears(results: Results) -> Outcome:
    reports = results.reports(PENALTY, "state_bridge:penalty=0.01")
    agree = [passes(report, "d") for report in reports]
    margins = [report.reading("d").value for report in reports]
    figures = {
        "the margin is as published": [near(margin, 10.4, 10.4, 3.0) for margin in margins],
        "the accuracy is as published": [near(accuracy(report), 0.453, 0.453) for report in reports],
    }
    words = f"margin in points {span(margins)}, accuracy {span(map(accuracy, reports))}"
    return weighed(f"{count(agree, 'seeds')} clear (d); {words}", {"(d) passes": agree}, figures)


def _scale_alone(results: Results) -> Outcome:
    reports, _, mended = repaired(results, WEAKEST)
    still = [not has_deep_alignment(report) for report in reports]
    figures = {
        "the accuracy is as published": [near(accuracy(r), 0.360, 0.360) for r in reports],
        "the deep cosine is as published": [
            near(deep_block_cosine(r), -0.020, -0.020, COSINE_TOLERANCE) for r in reports
        ],
        "‖h_L‖ is as published": [same_scale(last(r.residual_norms), 2.2e4, 2.2e4) for r in reports],
        "‖g_L‖ is as published": [same_scale(last(r.bp_grad_norms), 7e-7, 7e-7) for r in reports],
    }
    deep = "; ".join(against(deep_block_cosine(r), block_null(r, first=1)) for r in reports)
    words = f"{norm_words(reports)}, accuracy {span(map(accuracy, reports))}"
    words = f"{repair_words(mended)}; no deep alignment on {count(still, 'seeds')}: {deep}; {words}"
    return weighed(words, {**repair_parts(mended), "there is no deep alignment": still}, figures)


CLAIMS = (
    Claim(
        "C36",
        "penalised, the cosine orders Credit Bridge > State Bridge > DFA; accuracy, nudge and training loss order "
        "State Bridge ≫ Credit Bridge ≈ DFA",
        "DFA, State Bridge, Credit Bridge: accuracy 0.360, 0.453, 0.360; deep cosine +0.151, +0.322, +0.679; ρ "
        "+0.080, +0.402, +0.464; nudge −4.98e-5, −1.93e-3, −4.26e-4; fall of the training loss 0.095, 0.447, 0.121",
        f"On every seed of the three {AS_SOURCE} with λ = 1e-2 the deep cosine is in this order; State Bridge is more "
        "than 3 points above the others in accuracy and these within 3 points of each other; its nudge lowers the "
        f"loss, and its training loss falls, by {FAR:g} times as much as either of theirs or more. Means within 3 "
        "points in accuracy, 0.05 in cosine and ρ, a factor of ten in the nudge; ρ and nudge are of credit with RMS 1, "
        "as blocks get it, over the blocks behind the first. Partly: some of these.",
        COMMANDS[PENALTY],
        _triangle,
    ),
    Claim(
        "C37",
        "State Bridge with the penalty clears (d)",
        "0.453 ± 0.003, +10.4 pp",
        f"(d) passes on every seed of State Bridge {AS_SOURCE} with λ = 1e-2, with a margin and an accuracy within 3 "
        "points of the published ones.",
        COMMANDS[PENALTY],
        _clears,
    ),
    Claim(
        "C38",
        "λ = 1e-4 repairs scale and not the deep cosine",
        "acc 0.360, ‖h_L‖ 2.2e4, ‖g_L‖ 7e-7, deep cosine −0.020",
        f"On every seed (a) and (b) each fire on DFA {AS_SOURCE} without the penalty and pass with λ = 1e-4, and the "
        f"deep cosine there is not more than {DEVIATIONS:g} deviations above its null; accuracy within 3 points, the "
        "deep cosine within 0.05, ‖h_L‖ and ‖g_L‖ within a factor of ten. Partly: some of these.",
        COMMANDS[PENALTY],
        _scale_alone,
    ),
)
