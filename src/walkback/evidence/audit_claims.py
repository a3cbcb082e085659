"""Claims on the audit of ResMLP, d = 256: which methods are walked back, by what, and how clearly."""

from __future__ import annotations

import math
from functools import partial

from walkback.evidence.claim import Claim, Outcome, Status, by_cases, near, same_scale
from walkback.evidence.reading import (
    FAILING,
    PRESET,
    PUBLISHED_METHODS,
    RECORD,
    accuracy,
    all_fire,
    count,
    fired_letters,
    fires,
    last,
    mean,
    passes,
    span,
)
from walkback.evidence.results import SEEDS_NEEDED, NotOnRecordError, Results
from walkback.present.numbers import figure
from walkback.protocol.records import DiagnosticReport

Range = tuple[float, float]
FAR_APART = 10.0
STUDY_ABLATION = f"{PRESET}; walkback study ablation"
RULE = "Accuracy within 3 points of the published range, norms within a factor of ten of theirs"


def _figures(report: DiagnosticReport, acc: Range, norm: Range | None, gradient: Range | None) -> bool:
    agree = [near(report.headline_acc, *acc)]
    agree += [same_scale(last(report.residual_norms), *norm)] if norm else []
    agree += [same_scale(last(report.bp_grad_norms), *gradient)] if gradient else []
    return all(agree)


def _words(reports: list[DiagnosticReport]) -> str:
    return (
        f"accuracy {span(map(accuracy, reports))}, ‖h_L‖ {span(last(r.residual_norms) for r in reports)}, "
        f"‖g_L‖ {span(last(r.bp_grad_norms) for r in reports)}; fired: {fired_letters(reports)}"
    )


def _trustworthy(results: Results, label: str, acc: Range, norm: Range, gradient: Range) -> Outcome:
    reports = results.reports(RECORD, label)
    agree = [passes(report, "abcd") for report in reports]
    figures = [_figures(report, acc, norm, gradient) for report in reports]
    return Outcome(by_cases(agree, figures), f"{count(agree, 'seeds')} trustworthy; {_words(reports)}")


def _passing(results: Results, label: str, acc: Range, norm: Range, gradient: Range) -> Outcome:
    reports = results.reports(RECORD, label)
    agree = [passes(report, "abc") for report in reports]
    figures = [_figures(report, acc, norm, gradient) for report in reports]
    return Outcome(by_cases(agree, figures), f"{count(agree, 'seeds')} pass (a), (b), (c); {_words(reports)}")


def _walked_back(
    results: Results, label: str, acc: Range, norm: Range | None = None, gradient: Range | None = None
) -> Outcome:
    reports = results.reports(RECORD, label)
    agree = [all_fire(report, "abd") for report in reports]
    figures = [_figures(report, acc, norm, gradient) for report in reports]
    return Outcome(by_cases(agree, figures), f"{count(agree, 'seeds')} fire (a), (b) and (d); {_words(reports)}")


def _mixed_drift(results: Results) -> Outcome:
    fired = {label: [fires(r, "c") for r in results.reports(RECORD, label)] for label in FAILING}
    mixed = [label for label, states in fired.items() if any(states) and not all(states)]
    words = ", ".join(f"{label} {count(states, 'seeds')}" for label, states in fired.items())
    named = f"; mixed: {', '.join(mixed)}" if mixed else "; none is mixed"
    return Outcome(Status.REPRODUCED if mixed else Status.NOT_REPRODUCED, f"(c) fires on {words}{named}")


def _gap(results: Results, letter: str, published: float) -> Outcome:
    """Healthy against degenerate by verdict, and passing against firing this diagnostic: both have to be far apart."""
    reports = results.reports(RECORD, *PUBLISHED_METHODS)
    by_verdict = _ratio([(r, not passes(r, "abcd")) for r in reports], letter)
    by_reading = _ratio([(r, fires(r, letter)) for r in reports], letter)
    apart = [gap is not None and gap[2] >= FAR_APART for gap in (by_verdict, by_reading)]
    status = by_cases(apart, [by_verdict is not None and same_scale(by_verdict[2], published, math.inf)])
    return Outcome(status, f"by verdict {_gap_words(by_verdict)}; by ({letter}) itself {_gap_words(by_reading)}")


def _ratio(sides: list[tuple[DiagnosticReport, bool]], letter: str) -> tuple[float, float, float] | None:
    """The two nearest figures of the sides and how many times apart they are; below 1 where they overlap."""
    known = [(f, bad) for r, bad in sides if (f := r.reading(letter).figure) is not None and math.isfinite(f)]
    healthy, degenerate = ([f for f, bad in known if bad is side] for side in (False, True))
    if not healthy or not degenerate:
        return None
    if letter == "a":
        return max(healthy), min(degenerate), min(degenerate) / max(healthy)
    return min(healthy), max(degenerate), min(healthy) / max(degenerate) if max(degenerate) else math.inf


def _gap_words(gap: tuple[float, float, float] | None) -> str:
    if gap is None:
        return "one side is empty"
    return f"{figure(gap[0])} against {figure(gap[1])}: {figure(gap[2], 4)}×"


def _low_drift(results: Results) -> Outcome:
    reports = results.reports(RECORD, "bp", "ep")
    words = "; ".join(
        f"{label} {span(r.cross_batch_stability for r in reports if r.method_name == label)}" for label in ("bp", "ep")
    )
    agree = [passes(report, "c") for report in reports]
    return Outcome(by_cases(agree), f"{count(agree, 'networks')} pass (c); {words}")


def _utility(results: Results) -> Outcome:
    study = results.study("ablation", RECORD)
    seeds = {method["label"]: method["seeds"] for method in study["methods"]}
    short = [label for label in PUBLISHED_METHODS if seeds.get(label, 0) < SEEDS_NEEDED]
    if short or study["without_alignment"] or any(study["unmeasured"].values()):
        missing = f"three seeds of {', '.join(short)}" if short else "Γ and all four diagnostics of every network"
        raise NotOnRecordError(f"ablation_{RECORD}.json lacks {missing}")
    policies = study["policies"]
    back = {name: [label for label in p["walked_back"] if label in PUBLISHED_METHODS] for name, p in policies.items()}
    mixed = {name: set(p["mixed"]) & set(PUBLISHED_METHODS) for name, p in policies.items()}
    blind = not (set(back["S1"]) | mixed["S1"]) & set(FAILING)
    each = all(set(FAILING) <= set(back[policy]) for policy in ("S2", "S3", "S4"))
    exact = set(back["S_full"]) == set(FAILING) and not mixed["S_full"]
    found = set(FAILING) <= set(back["S_full"])
    status = Status.REPRODUCED if blind and each and exact else Status.PARTLY if blind and found else None
    words = "; ".join(f"{name} {len(labels)} of 5" for name, labels in back.items())
    return Outcome(status or Status.NOT_REPRODUCED, f"{words}; S_full: {', '.join(back['S_full']) or 'none'}")


def _frozen(results: Results) -> Outcome:
    scores = [r.frozen_baseline_acc for r in results.reports(RECORD, "dfa") if r.frozen_baseline_acc is not None]
    if len(scores) < SEEDS_NEEDED:
        raise NotOnRecordError(f"audit_{RECORD}.json has {len(scores)} frozen baselines of dfa")
    status = by_cases([near(mean(scores), 0.349, 0.349)], [near(mean(scores), 0.349, 0.349, 0.01)])
    return Outcome(status, f"mean {figure(mean(scores))}, seeds {span(scores)}")


CLAIMS = (
    Claim(
        "C01",
        "ResMLP BP trustworthy, 3/3 seeds",
        "acc 0.61–0.62, ‖h_L‖ ≈ 200, ‖g_L‖ 3–4e-4",
        f"(a), (b), (c) and (d) pass on every seed. {RULE}.",
        PRESET,
        partial(_trustworthy, label="bp", acc=(0.61, 0.62), norm=(200, 200), gradient=(3e-4, 4e-4)),
    ),
    Claim(
        "C02",
        "ResMLP DFA walked back by (a), (b), (d), 3/3",
        "acc 0.297–0.311, ‖h_L‖ 4–7e8, ‖g_L‖ 2–4e-9",
        f"(a), (b) and (d) fire on every seed of DFA with credit normalised per sample. {RULE}.",
        PRESET,
        partial(_walked_back, label="dfa", acc=(0.297, 0.311), norm=(4e8, 7e8), gradient=(2e-9, 4e-9)),
    ),
    Claim(
        "C03",
        "ResMLP State Bridge walked back by (a), (b), (d), 3/3",
        "acc 0.17–0.25",
        "(a), (b) and (d) fire on every seed. Accuracy within 3 points of the published range.",
        PRESET,
        partial(_walked_back, label="state_bridge", acc=(0.17, 0.25)),
    ),
    Claim(
        "C04",
        "ResMLP Credit Bridge walked back by (a), (b), (d), 3/3",
        "acc 0.26–0.32",
        "(a), (b) and (d) fire on every seed. Accuracy within 3 points of the published range.",
        PRESET,
        partial(_walked_back, label="credit_bridge", acc=(0.26, 0.32)),
    ),
    Claim(
        "C05",
        "ResMLP EP passes (a), (b), (c), 3/3",
        "acc 0.29–0.36, ‖h_L‖ 3–8e3, ‖g_L‖ 1–2e-4",
        f"(a), (b) and (c) pass on every seed. {RULE}.",
        PRESET,
        partial(_passing, label="ep", acc=(0.29, 0.36), norm=(3e3, 8e3), gradient=(1e-4, 2e-4)),
    ),
    Claim(
        "C06",
        "(c) fires on some seeds and not on others of one failing method",
        "5 of 9 above 0.30; DFA 0.047, 0.436, −0.005",
        "At least one of DFA, State Bridge and Credit Bridge has seeds on which (c) fires and some on which it passes.",
        PRESET,
        _mixed_drift,
    ),
    Claim(
        "C07",
        "healthy and degenerate growth are far apart",
        "10.96 against 694: 63×",
        "Over the five published methods, the smallest growth of a network that is walked back is ten times the "
        "largest of one that is trustworthy, or more, and so are those of networks that fire and pass (a). Partly: "
        "one of the two.",
        PRESET,
        partial(_gap, letter="a", published=63.36),
    ),
    Claim(
        "C08",
        "healthy and degenerate ‖g_L‖ are far apart",
        "1.02e-4 against 4.18e-9: 24,338×",
        "Over the five published methods, the smallest ‖g_L‖ of a network that is trustworthy is ten times the largest "
        "of one that is walked back, or more, and a tenth of the published gap or more; and those of networks that "
        "pass and fire (b) are ten times apart. Partly: some of these.",
        PRESET,
        partial(_gap, letter="b", published=24_338),
    ),
    Claim(
        "C09",
        "(c) stays low for BP and EP",
        "−0.036 … 0.120, median 0.093",
        "(c) passes on every seed of BP and EP.",
        PRESET,
        _low_drift,
    ),
    Claim(
        "C10",
        "accuracy + Γ finds none of the failures; (a), (b) and (d) each find all",
        "0 of 5 against 3 of 5",
        "Over the five published methods, S1 walks back none of DFA, State Bridge and Credit Bridge on any seed; S2, "
        "S3 and S4 each walk back all three; S_full walks back these three alone, no other on any seed. Partly: S1 "
        "none, S_full at least these three.",
        STUDY_ABLATION,
        _utility,
    ),
    Claim(
        "C29",
        "matched frozen-blocks DFA baseline",
        "0.349",
        "The mean over seeds is within 1 point. Partly: within 3.",
        PRESET,
        _frozen,
    ),
)
