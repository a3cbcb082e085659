"""Claims on Γ: its null, its aggregation, the site that carries it, and what the penalty does to it."""

from __future__ import annotations

from walkback.lab.evidence.claim import COSINE_TOLERANCE, Claim, Outcome, by_cases, near, weighed
from walkback.lab.evidence.deciding import count, mean, span
from walkback.lab.evidence.penalty_claims import PENALISED, PLAIN
from walkback.lab.evidence.results import NotOnRecordError, Results
from walkback.lab.evidence.source_deciding import (
    AS_SOURCE,
    COMMANDS,
    PENALTY,
    SOURCE,
    alignment_of,
    block_cosines,
    block_gamma,
    block_null,
    course,
    deep_block_cosine,
    of_each_seed,
    shared_seeds,
)
from walkback.present.numbers import signed
from walkback.protocol.records import DiagnosticReport

DEVIATIONS = 3.0
PENALTY_EPOCHS, FIRST_EPOCHS = 30, 3


def _null(results: Results) -> Outcome:
    """Γ as one number, against fresh feedback."""
    agree, close, words = [], [], []
    for report in results.reports(SOURCE, "dfa"):
        gamma, (centre, spread) = block_gamma(report), block_null(report)
        agree.append(abs(centre) < 0.02 and gamma > centre + DEVIATIONS * spread)
        close.append(near(gamma, 0.068, 0.068, COSINE_TOLERANCE))
        words.append(against(gamma, (centre, spread)))
    cases = {"Γ is far above that of fresh feedback, which is near zero": agree}
    return weighed("; ".join(words), cases, {"Γ is as published": close})


def against(gamma: float, null: tuple[float, float]) -> str:
    """`+0.151 against +0.002 ± 0.022`."""
    return f"{signed(gamma)} against {signed(null[0])} ± {signed(null[1]).lstrip('+')}"


def _orders(results: Results) -> Outcome:
    found = [
        [gamma for order, gamma in alignment_of(report).orders.items() if order.startswith("all:")]
        for report in results.reports(SOURCE, "dfa")
    ]
    if not all(found):
        raise NotOnRecordError(f"audit_{SOURCE}.json has no orders of aggregation of dfa on some seed")
    agree = [min(orders) < 0 < max(orders) for orders in found]
    lowest = [near(min(orders), -0.028, -0.028, COSINE_TOLERANCE) for orders in found]
    highest = [near(max(orders), 0.074, 0.074, COSINE_TOLERANCE) for orders in found]
    words = "; ".join(f"{signed(min(orders))} to {signed(max(orders))}" for orders in found)
    figures = {"the lowest Γ is as published": lowest, "the highest Γ is as published": highest}
    return weighed(f"the sign flips on {count(agree, 'seeds')}: {words}", {"the sign flips": agree}, figures)


def at_site_zero(reports: list[DiagnosticReport]) -> tuple[list[bool], str]:
    """Whether site 0 alone is aligned in each network, and the cosines."""
    first = [block_cosines(report)[0] for report in reports]
    deep = [deep_block_cosine(report) for report in reports]
    agree = [zero > 0.2 and hidden < 0.05 for zero, hidden in zip(first, deep, strict=True)]
    return agree, f"site 0 {span(first)}, the blocks behind {span(deep)}"


def _site_zero(results: Results) -> Outcome:
    agree, words = at_site_zero(results.reports(SOURCE, "dfa"))
    return weighed(words, {"site 0 alone is aligned": agree})


def has_deep_alignment(report: DiagnosticReport) -> bool:
    """Whether the deep cosine is more than three deviations above that of fresh feedback."""
    centre, spread = block_null(report, first=1)
    return deep_block_cosine(report) > centre + DEVIATIONS * spread


def _penalised(results: Results) -> Outcome:
    reports = results.reports(PENALTY, PENALISED)
    agree = [has_deep_alignment(report) for report in reports]
    close = [near(deep_block_cosine(report), 0.151, 0.151, COSINE_TOLERANCE) for report in reports]
    words = [against(deep_block_cosine(report), block_null(report, first=1)) for report in reports]
    cases = {"the deep cosine is far above its null": agree}
    return weighed("; ".join(words), cases, {"the deep cosine is as published": close})


def _created(results: Results) -> Outcome:
    """Each half on its own: there at the end with the penalty, and at no epoch without it."""
    with_penalty, without = (of_each_seed(results, PENALTY, label) for label in (PENALISED, PLAIN))
    deep = {
        run.seed: [mean(sites[1:-1]) for sites in course(run, "alignment", PENALTY_EPOCHS)[1:]]
        for run in results.run_files(PENALTY, PLAIN)
    }
    seeds = shared_seeds(deep, with_penalty, without)
    there = [has_deep_alignment(with_penalty[seed]) for seed in seeds]
    largest = {seed: max(map(abs, deep[seed])) for seed in seeds}
    never = [largest[seed] < DEVIATIONS * block_null(without[seed], first=1)[1] for seed in seeds]
    early = [mean(deep[seed][:FIRST_EPOCHS]) for seed in seeds]
    words = f"with the penalty it is there on {count(there, 'seeds')}; without, it stays at its null on "
    words += f"{count(never, 'seeds')}, {span(early)} in the first epochs and at most {span(largest.values())}"
    status = by_cases([a and b for a, b in zip(there, never, strict=True)])
    parts = {"with the penalty it is there": there, "without the penalty it never is": never}
    return weighed(words, parts, status=status)


CLAIMS = (
    Claim(
        "C19",
        "fresh feedback is the null",
        "+0.068 against +0.0043 ± 0.007",
        f"On every seed of DFA {AS_SOURCE}, after 100 epochs, Γ (the mean over blocks) under fresh feedback is within "
        f"0.02 of zero, and under the trained feedback more than {DEVIATIONS:g} deviations above that, and within 0.05 "
        "of the published one.",
        COMMANDS[SOURCE],
        _null,
    ),
    Claim(
        "C20",
        "aggregation flips Γ's sign",
        "−0.028 … +0.074",
        f"On every seed of DFA {AS_SOURCE}, after 100 epochs, some of the four orders of aggregation over all sites "
        "(mean or median over samples, then mean or median over sites) give a negative Γ and some a positive one; the "
        "extremes are within 0.05 of the published ones.",
        COMMANDS[SOURCE],
        _orders,
    ),
    Claim(
        "C21",
        "site 0 carries Γ",
        "+0.429; hidden −0.022",
        f"On every seed of DFA {AS_SOURCE}, after 100 epochs, the cosine at site 0 is above 0.2, and its mean over the "
        "blocks behind the first below 0.05.",
        COMMANDS[SOURCE],
        _site_zero,
    ),
    Claim(
        "C26",
        "penalised DFA has real deep alignment",
        "+0.151 ± 0.025, null +0.002 ± 0.022",
        f"On every seed of DFA {AS_SOURCE} with λ = 1e-2 the deep cosine, the mean over the blocks behind the first, "
        f"is more than {DEVIATIONS:g} deviations above its null, and within 0.05 of the published one.",
        COMMANDS[PENALTY],
        _penalised,
    ),
    Claim(
        "C27",
        "the penalty creates it; the unpenalised run never had it",
        "first epochs −0.008 ± 0.013",
        f"On every seed the deep cosine of DFA {AS_SOURCE} with λ = 1e-2 is more than {DEVIATIONS:g} deviations above "
        f"its null at the end, and without the penalty it is under {DEVIATIONS:g} deviations of its null at every "
        "epoch of the 30.",
        COMMANDS[PENALTY],
        _created,
    ),
)
