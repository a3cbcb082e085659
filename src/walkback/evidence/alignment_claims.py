"""Claims on Γ: its null, its aggregation, the site that carries it, and what the penalty does to it."""

from __future__ import annotations

import math

from walkback.evidence.claim import COSINE_TOLERANCE, Claim, Outcome, by_cases, near
from walkback.evidence.penalty_claims import COMMAND, PENALISED, PENALTY, PLAIN
from walkback.evidence.reading import PRESET, RECORD, count, deep_cosine, mean, span
from walkback.evidence.results import SEEDS_NEEDED, NotOnRecordError, Results
from walkback.present.numbers import signed
from walkback.protocol.records import Alignment, NullAlignment

DEVIATIONS = 3.0


def _alignments(results: Results, audit: str, label: str) -> list[Alignment]:
    found = [report.alignment for report in results.reports(audit, label)]
    known = [alignment for alignment in found if alignment is not None and alignment.sites is not None]
    if len(known) < len(found):
        raise NotOnRecordError(f"audit_{audit}.json has no alignment of {label} on some seed")
    return known


def _null(results: Results) -> Outcome:
    """Γ as one number, against fresh feedback; the sites' feedback is independent, and so are their nulls."""
    agree, close, words = [], [], []
    for alignment in _alignments(results, RECORD, "dfa"):
        if alignment.null is None or alignment.sites is None:
            raise NotOnRecordError(f"audit_{RECORD}.json has no null of dfa")
        centre, sites = mean(alignment.null.site_means), len(alignment.sites)
        spread = math.sqrt(sum(sd**2 for sd in alignment.null.site_sds)) / sites
        agree.append(abs(centre) < 0.02 and mean(alignment.sites) > centre + DEVIATIONS * spread)
        close.append(near(mean(alignment.sites), 0.068, 0.068, COSINE_TOLERANCE))
        words.append(f"{signed(mean(alignment.sites))} against {signed(centre)} ± {signed(spread).lstrip('+')}")
    return Outcome(by_cases(agree, close), "; ".join(words))


def _orders(results: Results) -> Outcome:
    found = [
        [gamma for order, gamma in (alignment.orders or {}).items() if order.startswith("all:")]
        for alignment in _alignments(results, RECORD, "dfa")
    ]
    if not all(found):
        raise NotOnRecordError(f"audit_{RECORD}.json has no orders of aggregation of dfa on some seed")
    agree = [min(orders) < 0 < max(orders) for orders in found]
    close = [near(min(orders), -0.028, -0.028, COSINE_TOLERANCE) for orders in found]
    close += [near(max(orders), 0.074, 0.074, COSINE_TOLERANCE) for orders in found]
    words = "; ".join(f"{signed(min(orders))} to {signed(max(orders))}" for orders in found)
    return Outcome(by_cases(agree, close), f"the sign flips on {count(agree, 'seeds')}: {words}")


def _site_zero(results: Results) -> Outcome:
    found = _alignments(results, RECORD, "dfa")
    first = [alignment.sites[0] for alignment in found if alignment.sites]
    deep = [mean(alignment.sites[1:]) for alignment in found if alignment.sites]
    agree = [zero > 0.2 and hidden < 0.05 for zero, hidden in zip(first, deep, strict=True)]
    return Outcome(by_cases(agree), f"site 0 {span(first)}, hidden sites {span(deep)}")


def _penalised(results: Results) -> Outcome:
    found = _deep(results, PENALISED).values()
    agree = [gamma > null.deep_mean + DEVIATIONS * null.deep_sd for gamma, null in found]
    close = [near(gamma, 0.151, 0.151, COSINE_TOLERANCE) for gamma, _ in found]
    words = [f"{signed(g)} against {signed(n.deep_mean)} ± {signed(n.deep_sd).lstrip('+')}" for g, n in found]
    return Outcome(by_cases(agree, close), "; ".join(words))


def _deep(results: Results, label: str) -> dict[int | None, tuple[float, NullAlignment]]:
    """The deep cosine of each seed with its null."""
    found = {}
    for report in results.reports(PENALTY, label):
        if report.alignment is None or report.alignment.null is None:
            raise NotOnRecordError(f"audit_{PENALTY}.json has no null of {label}, seed {report.seed}")
        found[report.seed] = (deep_cosine(report), report.alignment.null)
    return found


def _created(results: Results) -> Outcome:
    """Each half on its own: there at the end with the penalty, and at no epoch without it."""
    with_penalty, without = _deep(results, PENALISED), _deep(results, PLAIN)
    traces = {run["seed"]: run["deep_alignment"] for run in results.runs("temporal", PENALTY, PLAIN)}
    seeds = [seed for seed in traces if seed in with_penalty and seed in without]
    if len(seeds) < SEEDS_NEEDED or any(traces[seed]["low"] is None for seed in seeds):
        raise NotOnRecordError(f"temporal_{PENALTY}.json has no deep cosine of {PLAIN} at every epoch of every seed")
    there = [gamma > null.deep_mean + DEVIATIONS * null.deep_sd for gamma, null in (with_penalty[s] for s in seeds)]
    largest = {seed: max(abs(traces[seed]["low"]), abs(traces[seed]["high"])) for seed in seeds}
    never = [largest[seed] < DEVIATIONS * without[seed][1].deep_sd for seed in seeds]
    early = [traces[seed]["first_epochs"] for seed in seeds]
    words = f"with the penalty it is there on {count(there, 'seeds')}; without, it stays at its null on "
    words += f"{count(never, 'seeds')}, {span(early)} in the first epochs and at most {span(largest.values())}"
    return Outcome(by_cases([a and b for a, b in zip(there, never, strict=True)]), words)


CLAIMS = (
    Claim(
        "C19",
        "fresh feedback is the null",
        "+0.068 against +0.0043 ± 0.007",
        "On every seed of DFA (credit per sample), Γ under fresh feedback is within 0.02 of zero, and under the "
        f"trained feedback more than {DEVIATIONS:g} deviations above that, and within 0.05 of the published one.",
        PRESET,
        _null,
    ),
    Claim(
        "C20",
        "aggregation flips Γ's sign",
        "−0.028 … +0.074",
        "On every seed of DFA some of the four orders of aggregation over all sites (mean or median over samples, then "
        "mean or median over sites) give a negative Γ and some a positive one; the extremes are within 0.05 of the "
        "published ones.",
        PRESET,
        _orders,
    ),
    Claim(
        "C21",
        "site 0 carries Γ",
        "+0.429; hidden −0.022",
        "On every seed of DFA the cosine at site 0 is above 0.2, and its mean over the other sites below 0.05.",
        PRESET,
        _site_zero,
    ),
    Claim(
        "C26",
        "penalised DFA has real deep alignment",
        "+0.151, null +0.002 ± 0.022",
        f"On every seed the deep cosine is more than {DEVIATIONS:g} deviations above its null, and within 0.05 of the "
        "published one.",
        COMMAND,
        _penalised,
    ),
    Claim(
        "C27",
        "the penalty creates it; the unpenalised run never had it",
        "first epochs −0.008 ± 0.013",
        f"On every seed the deep cosine of textbook DFA with the penalty is more than {DEVIATIONS:g} deviations above "
        f"its null at the end, and without the penalty it is under {DEVIATIONS:g} deviations of its null at every "
        "epoch.",
        f"{COMMAND}; walkback study temporal",
        _created,
    ),
)
