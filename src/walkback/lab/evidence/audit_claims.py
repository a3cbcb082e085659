"""Claims on the main audit, of ResMLP with d = 256: which methods are walked back, by what, and how clearly."""

from __future__ import annotations

from functools import partial

from walkback.lab.evidence.claim import Claim, Outcome, Parts, Status, near, same_scale, weighed
from walkback.lab.evidence.deciding import (
    FAILING,
    PRESET,
    PUBLISHED,
    RECORD,
    accuracy,
    all_fire,
    count,
    fired_letters,
    fires,
    last,
    mean,
    norm_words,
    passes,
    span,
)
from walkback.lab.evidence.results import SEEDS_NEEDED, NotOnRecordError, Results
from walkback.lab.evidence.source_deciding import AS_SOURCE, COMMANDS, EP, EP_IS_STABLE, SOURCE
from walkback.present.numbers import written
from walkback.protocol.records import DiagnosticReport

Range = tuple[float, float]
RULE = "Accuracy within 3 points of the published range, norms within a factor of ten of theirs"


def _figures(reports: list[DiagnosticReport], acc: Range, norm: Range | None, gradient: Range | None) -> Parts:
    found = {"the accuracy is as published": [near(r.headline_acc, *acc) for r in reports]}
    if norm:
        found["‖h_L‖ is as published"] = [same_scale(last(r.residual_norms), *norm) for r in reports]
    if gradient:
        found["‖g_L‖ is as published"] = [same_scale(last(r.bp_grad_norms), *gradient) for r in reports]
    return found


def _words(reports: list[DiagnosticReport]) -> str:
    return f"accuracy {span(map(accuracy, reports))}, {norm_words(reports)}; fired: {fired_letters(reports)}"


def _trustworthy(results: Results, label: str, acc: Range, norm: Range, gradient: Range) -> Outcome:
    reports = results.reports(RECORD, label)
    agree = [passes(report, PUBLISHED) for report in reports]
    words = f"{count(agree, 'seeds')} trustworthy; {_words(reports)}"
    return weighed(words, {"(a) to (d) pass": agree}, _figures(reports, acc, norm, gradient))


def _passing(results: Results, label: str, acc: Range, norm: Range, gradient: Range) -> Outcome:
    reports = results.reports(EP, label)
    agree = [passes(report, "abc") for report in reports]
    words = f"{count(agree, 'seeds')} pass (a), (b), (c); {_words(reports)}"
    return weighed(words, {"(a), (b) and (c) pass": agree}, _figures(reports, acc, norm, gradient))


def _walked_back(
    results: Results, label: str, acc: Range, norm: Range | None = None, gradient: Range | None = None
) -> Outcome:
    reports = results.reports(SOURCE, label)
    agree = [all_fire(report, "abd") for report in reports]
    words = f"{count(agree, 'seeds')} fire (a), (b) and (d); {_words(reports)}"
    return weighed(words, {"(a), (b) and (d) fire": agree}, _figures(reports, acc, norm, gradient))


def _mixed_drift(results: Results) -> Outcome:
    reports = {label: results.reports(SOURCE, label) for label in FAILING}
    fired = {label: [fires(r, "c") for r in found] for label, found in reports.items()}
    mixed = [label for label, found in reports.items() if any(fired[label]) and any(passes(r, "c") for r in found)]
    words = ", ".join(f"{label} {count(states, 'seeds')}" for label, states in fired.items())
    named = f"; mixed: {', '.join(mixed)}" if mixed else "; none is mixed"
    status = Status.REPRODUCED if mixed else Status.NOT_REPRODUCED
    return weighed(
        f"(c) fires on {words}{named}", {"(c) is mixed over the seeds of one method": [bool(mixed)]}, status=status
    )


def _frozen(results: Results) -> Outcome:
    scores = [r.frozen_baseline_acc for r in results.reports(SOURCE, "dfa") if r.frozen_baseline_acc is not None]
    if len(scores) < SEEDS_NEEDED:
        raise NotOnRecordError(f"audit_{SOURCE}.json has {len(scores)} frozen baselines of dfa")
    cases = {"the mean is within 3 points": [near(mean(scores), 0.349, 0.349)]}
    figures = {"the mean is within 1 point": [near(mean(scores), 0.349, 0.349, 0.01)]}
    return weighed(f"mean {written(mean(scores))}, seeds {span(scores)}", cases, figures)


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
        "acc 0.306 ± 0.008 (0.297–0.311), ‖h_L‖ 4–7e8, ‖g_L‖ 2–4e-9",
        f"(a), (b) and (d) fire on every seed of DFA {AS_SOURCE}, after 100 epochs. {RULE}.",
        COMMANDS[SOURCE],
        partial(_walked_back, label="dfa", acc=(0.297, 0.311), norm=(4e8, 7e8), gradient=(2e-9, 4e-9)),
    ),
    Claim(
        "C03",
        "ResMLP State Bridge walked back by (a), (b), (d), 3/3",
        "acc 0.205 ± 0.039 (0.17–0.25)",
        f"(a), (b) and (d) fire on every seed of State Bridge {AS_SOURCE}, after 100 epochs. Accuracy within 3 points "
        "of the published range.",
        COMMANDS[SOURCE],
        partial(_walked_back, label="state_bridge", acc=(0.17, 0.25)),
    ),
    Claim(
        "C04",
        "ResMLP Credit Bridge walked back by (a), (b), (d), 3/3",
        "acc 0.289 ± 0.031 (0.26–0.32)",
        f"(a), (b) and (d) fire on every seed of Credit Bridge {AS_SOURCE}, after 100 epochs. Accuracy within 3 points "
        "of the published range.",
        COMMANDS[SOURCE],
        partial(_walked_back, label="credit_bridge", acc=(0.26, 0.32)),
    ),
    Claim(
        "C05",
        "ResMLP EP passes (a), (b), (c), 3/3",
        "acc 0.316 ± 0.037 (0.29–0.36), ‖h_L‖ 3–8e3, ‖g_L‖ 1–2e-4",
        f"(a), (b) and (c) pass on every seed of EP {AS_SOURCE}, after 100 epochs. {RULE}.",
        COMMANDS[EP],
        partial(_passing, label="ep", acc=(0.29, 0.36), norm=(3e3, 8e3), gradient=(1e-4, 2e-4)),
        EP_IS_STABLE,
    ),
    Claim(
        "C06",
        "(c) fires on some seeds and not on others of one failing method",
        "5 of 9 above 0.30; DFA 0.047, 0.436, −0.005",
        f"At least one of DFA, State Bridge and Credit Bridge {AS_SOURCE} has seeds on which (c) fires and some on "
        "which it passes, after 100 epochs.",
        COMMANDS[SOURCE],
        _mixed_drift,
    ),
    Claim(
        "C29",
        "matched frozen-blocks DFA baseline",
        "0.349 ± 0.003",
        f"The mean over seeds of the frozen baselines of DFA {AS_SOURCE}, after 100 epochs, is within 1 point. Partly: "
        "within 3.",
        COMMANDS[SOURCE],
        _frozen,
    ),
)
