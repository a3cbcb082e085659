"""Claims on Γ: its null, its aggregation, the site that carries it, and what the penalty does to it."""

from __future__ import annotations

import math

from walkback.evidence.claim import Claim, Outcome, by_cases, near
from walkback.evidence.penalty_claims import COMMAND, PENALISED, PENALTY
from walkback.evidence.reading import PRESET, RECORD, count, mean, span
from walkback.evidence.results import NotOnRecordError, Results
from walkback.present.numbers import signed
from walkback.protocol.records import Alignment

DEVIATIONS = 3.0


def _alignments(results: Results, audit: str, label: str) -> list[Alignment]:
    found = [report.alignment for report in results.reports(audit, label)]
    known = [alignment for alignment in found if alignment is not None and alignment.sites is not None]
    if not known:
        raise NotOnRecordError(f"audit_{audit}.json has no alignment of {label}")
    return known


def _null(results: Results) -> Outcome:
    """Γ as one number, against fresh feedback; the sites' feedback is independent, and so are their nulls."""
    agree, words = [], []
    for alignment in _alignments(results, RECORD, "dfa"):
        if alignment.null is None or alignment.sites is None:
            raise NotOnRecordError(f"audit_{RECORD}.json has no null of dfa")
        centre, sites = mean(alignment.null.site_means), len(alignment.sites)
        spread = math.sqrt(sum(sd**2 for sd in alignment.null.site_sds)) / sites
        agree.append(abs(centre) < 0.02 and mean(alignment.sites) > centre + DEVIATIONS * spread)
        words.append(f"{signed(mean(alignment.sites))} against {signed(centre)} ± {signed(spread).lstrip('+')}")
    return Outcome(by_cases(agree), "; ".join(words))


def _orders(results: Results) -> Outcome:
    found = [alignment.orders.values() for alignment in _alignments(results, RECORD, "dfa") if alignment.orders]
    agree = [min(orders) < 0 < max(orders) for orders in found]
    words = "; ".join(f"{signed(min(orders))} to {signed(max(orders))}" for orders in found)
    return Outcome(by_cases(agree), f"the sign flips on {count(agree, 'seeds')}: {words}")


def _site_zero(results: Results) -> Outcome:
    found = _alignments(results, RECORD, "dfa")
    first = [alignment.sites[0] for alignment in found if alignment.sites]
    deep = [mean(alignment.sites[1:]) for alignment in found if alignment.sites]
    agree = [zero > 0.2 and hidden < 0.05 for zero, hidden in zip(first, deep, strict=True)]
    return Outcome(by_cases(agree), f"site 0 {span(first)}, hidden sites {span(deep)}")


def _penalised(results: Results) -> Outcome:
    agree, close, words = [], [], []
    for alignment in _alignments(results, PENALTY, PENALISED):
        if alignment.null is None or alignment.deep is None:
            raise NotOnRecordError(f"audit_{PENALTY}.json has no null of {PENALISED}")
        null = alignment.null
        agree.append(alignment.deep > null.deep_mean + DEVIATIONS * null.deep_sd)
        close.append(near(alignment.deep, 0.151, 0.151, 0.05))
        words.append(f"{signed(alignment.deep)} against {signed(null.deep_mean)} ± {signed(null.deep_sd).lstrip('+')}")
    return Outcome(by_cases(agree, close), "; ".join(words))


def _created(results: Results) -> Outcome:
    runs = results.runs("temporal", PENALTY, "dfa_textbook")
    early = [run["deep_alignment"]["first_epochs"] for run in runs]
    agree = [value is not None and abs(value) < 0.05 for value in early]
    return Outcome(by_cases(agree), f"deep cosine in the first epochs without the penalty: {span(early)}")


CLAIMS = (
    Claim(
        "C19",
        "fresh feedback is the null",
        "+0.068 against +0.0043 ± 0.007",
        "On every seed of DFA (credit per sample), Γ under fresh feedback is within 0.02 of zero, and under the "
        f"trained feedback more than {DEVIATIONS:g} deviations above that.",
        PRESET,
        _null,
    ),
    Claim(
        "C20",
        "aggregation flips Γ's sign",
        "−0.028 … +0.074",
        "On every seed of DFA some valid orders of aggregation give a negative Γ and some a positive one.",
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
        "On every seed of textbook DFA without the penalty, the deep cosine in the first three epochs is within 0.05 "
        "of zero.",
        f"{COMMAND}; walkback study temporal",
        _created,
    ),
)
