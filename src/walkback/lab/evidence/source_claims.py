"""Claims on what the source's methods do beside its main audit: FA, no terminal norm, no skips, random targets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from walkback.lab.evidence.claim import COSINE_TOLERANCE, Claim, Outcome, near, same_scale, weighed
from walkback.lab.evidence.deciding import (
    accuracy,
    all_fire,
    count,
    fired_letters,
    first_epoch,
    last,
    mean,
    norm_words,
    passes,
    span,
)
from walkback.lab.evidence.network_claims import firsts
from walkback.lab.evidence.results import NotOnRecordError, Results
from walkback.lab.evidence.source_deciding import (
    AS_SOURCE,
    COMMANDS,
    DEPTH,
    EP_IS_STABLE,
    LONG_EPOCHS,
    NO_NORM,
    NO_SKIP,
    RANDOM,
    SOURCE,
    STUDENT,
    block_cosines,
    commands,
    course,
    of_each_seed,
    shared_seeds,
)
from walkback.present.numbers import signed, written
from walkback.protocol.records import DiagnosticReport

FA_BLOCKS = (0.016, 0.072, -0.085, 0.997)
DEPTHS = (4, 8)
STUDENT_EPOCHS, STUDENT_GROWTH = 80, 6.9
RANDOM_NORMS = {"dfa": (3, 14_510.0), "state_bridge": (3, 6_225.0), "credit_bridge": (3, 19_974.0), "ep": (5, 586.0)}
"""The epoch at which ‖h_L‖ was read, and what it was."""
GROWN = 100.0
"""Of a stream that grows, how many times the untrained one; published are 700 to 2300 times, and 67 for EP."""


def _without_norm(results: Results, epochs: int = LONG_EPOCHS) -> list[dict[str, Any]]:
    runs = results.runs("temporal", NO_NORM, "dfa")
    if min(run["epochs"] for run in runs) < epochs:
        raise NotOnRecordError(f"temporal_{NO_NORM}.json has a run of dfa of less than {epochs} epochs")
    return runs


def _grows_alone(runs: list[dict[str, Any]]) -> tuple[list[bool], list[bool]]:
    """Whether (a) fires and (b) never does, and whether (a) does so at the published epochs, by a factor of two."""
    grown = [first_epoch(run, "a") for run in runs]
    alone = [a is not None and first_epoch(run, "b") is None for a, run in zip(grown, runs, strict=True)]
    return alone, [same_scale(a, 14, 25, 2) for a in grown]


def _no_norm(results: Results) -> Outcome:
    runs = _without_norm(results)
    agree, when = _grows_alone(runs)
    close = [near(run["final_accuracy"], 0.31, 0.34) for run in runs]
    words = f"accuracy {span(run['final_accuracy'] for run in runs)}"
    figures = {"(a) fires at the published epochs": when, "the accuracy is as published": close}
    return weighed(f"{firsts(runs)}; {words}", {"(a) fires and (b) never does": agree}, figures)


def _no_norm_norms(results: Results) -> Outcome:
    runs, reports = _without_norm(results), results.reports(NO_NORM, "dfa")
    agree, when = _grows_alone(runs)
    figures = {
        "(a) fires at the published epochs": when,
        "‖h_L‖ is as published": [same_scale(last(r.residual_norms), 1.2e7, 1.2e7) for r in reports],
        "‖g_L‖ is as published": [same_scale(last(r.bp_grad_norms), 7.2e-4, 7.2e-4) for r in reports],
    }
    return weighed(f"{firsts(runs)}; {norm_words(reports)}", {"(a) fires and (b) never does": agree}, figures)


def _no_skip(results: Results) -> Outcome:
    reports = results.reports(NO_SKIP, "dfa")
    agree = [all_fire(report, "ab") for report in reports]
    figures = {
        "‖h_L‖ is as published": [same_scale(last(r.residual_norms), 3e7, 1e8) for r in reports],
        "‖g_L‖ is as published": [same_scale(last(r.bp_grad_norms), 1e-10, 3e-10) for r in reports],
    }
    words = f"{count(agree, 'seeds')} fire (a) and (b); {norm_words(reports)}"
    return weighed(words, {"(a) and (b) fire": agree}, figures)


def _fa(results: Results) -> Outcome:
    fa, dfa = (of_each_seed(results, SOURCE, label) for label in ("fa_block", "dfa"))
    seeds = shared_seeds(fa, dfa)
    agree = [passes(fa[seed], "ab") and accuracy(fa[seed]) > accuracy(dfa[seed]) for seed in seeds]
    cases = {"FA beats DFA and passes (a) and (b)": agree}
    blocks, scores = _mean_blocks(list(fa.values())), [mean(map(accuracy, each.values())) for each in (fa, dfa)]
    margins = [report.reading("d").value for report in fa.values()]
    figures = {
        "mean accuracies are as published": [near(s, x, x) for s, x in zip(scores, (0.401, 0.306), strict=True)],
        "mean cosines per block are as published": _as_published(blocks),
        "the margin is as published": [near(margin, 5.2, 5.2, 3.0) for margin in margins],
    }
    words = f"FA {written(scores[0])}, DFA {written(scores[1])}, margin of FA in points {span(margins)}; "
    words += f"per block {_signed(blocks)}; fired on FA: {fired_letters(fa.values())}"
    if results.has(f"audit_{DEPTH}.json"):
        won, by_depth = _by_depth(results)
        cases["the same at d = 512 with 4 and 8 blocks"] = won
        words = f"{words}; at d = 512, {by_depth}"
    return weighed(words, cases, figures)


def _by_depth(results: Results) -> tuple[list[bool], str]:
    """Whether FA beats DFA and passes (a) and (b) on each seed and depth, and the mean accuracies."""
    agree, words = [], []
    for depth in DEPTHS:
        fa, dfa = (of_each_seed(results, DEPTH, f"{method} depth {depth}") for method in ("fa_block", "dfa"))
        seeds = shared_seeds(fa, dfa)
        agree += [passes(fa[seed], "ab") and accuracy(fa[seed]) > accuracy(dfa[seed]) for seed in seeds]
        pair = " against ".join(written(mean(map(accuracy, each.values()))) for each in (fa, dfa))
        words.append(f"{depth} blocks {pair}")
    return agree, ", ".join(words)


def _mean_blocks(reports: list[DiagnosticReport]) -> list[float]:
    """The cosine of each block, the mean over seeds."""
    return [mean(cosines) for cosines in zip(*map(block_cosines, reports), strict=True)]


def _as_published(blocks: list[float]) -> list[bool]:
    pairs = zip(blocks, FA_BLOCKS, strict=True)
    return [near(cosine, published, published, COSINE_TOLERANCE) for cosine, published in pairs]


def _signed(values: Sequence[float]) -> str:
    return " ".join(map(signed, values))


def _one_block(results: Results) -> Outcome:
    reports = results.reports(SOURCE, "fa_block")
    cosines = [block_cosines(report) for report in reports]
    agree = [blocks[-1] >= 0.9 and max(map(abs, blocks[:-1])) <= 0.2 for blocks in cosines]
    words = "; ".join(map(_signed, cosines))
    figures = {"mean cosines per block are as published": _as_published(_mean_blocks(reports))}
    return weighed(f"{count(agree, 'seeds')}: {words}", {"the last block alone is aligned": agree}, figures)


def _student(results: Results) -> Outcome:
    traces = results.runs("temporal", STUDENT, "dfa")
    if min(run["epochs"] for run in traces) < STUDENT_EPOCHS:
        raise NotOnRecordError(f"temporal_{STUDENT}.json has a run of dfa of less than {STUDENT_EPOCHS} epochs")
    agree = [first_epoch(run, "a") is None for run in traces]
    runs = results.run_files(STUDENT, "dfa")
    growths = [max(map(_growth, course(run, "residual_norms", STUDENT_EPOCHS))) for run in runs]
    close = [growth <= 2 * STUDENT_GROWTH for growth in growths]
    words = f"(a) never fires on {count(agree, 'seeds')}; largest growth of any epoch {span(growths)}"
    figures = {"the largest growth is at most twice the published one": close}
    return weighed(words, {"(a) fires at no epoch": agree}, figures)


def _growth(norms: Sequence[float]) -> float:
    return max(after / before for before, after in pairwise(norms))


def _random_targets(results: Results) -> Outcome:
    cases, figures, words = {}, {}, []
    for label, (epoch, published) in RANDOM_NORMS.items():
        norms = [course(run, "residual_norms", epoch) for run in results.run_files(RANDOM, label)]
        ratios = [trace[-1][-1] / trace[0][-1] for trace in norms]
        expected = f"{label} does not grow" if label == "ep" else f"{label} grows"
        cases[expected] = [ratio < GROWN if label == "ep" else ratio >= GROWN for ratio in ratios]
        figures[f"‖h_L‖ of {label} is as published"] = [same_scale(t[-1][-1], published, published) for t in norms]
        words.append(f"{label} {span(trace[-1][-1] for trace in norms)} at epoch {epoch}, {span(ratios)} times")
    agree = [one for found in cases.values() for one in found]
    return weighed(f"as published on {count(agree, 'networks')}; ‖h_L‖ {'; '.join(words)}", cases, figures)


PER_SAMPLE = (
    "The source does not say whether the RMS of the credit is of each sample or of the batch. That DFA explodes "
    "without a terminal norm chose the former, in a sketch with seed 7 that was not this project's code."
)
STEM = (
    "The source does not say which credit FA's stem follows. The cosines per block chose a link of the chain of its "
    "own (after 10 epochs, seed 77: +0.016 +0.040 −0.044 +0.997) over that of the first block (seed 7: +0.35 −0.07 "
    "−0.01 +0.99)."
)
CLAIMS = (
    Claim(
        "C16",
        "ResMLP without a terminal norm, DFA: (a) fires, (b) never (the log gave these figures to StudentNet; its "
        "authors corrected it)",
        "(a) epoch 14–25; acc 0.31–0.34",
        f"In the 100-epoch runs (a) fires and (b) does at no epoch on every seed of DFA {AS_SOURCE}; the epoch is "
        "within a factor of two of the published ones, the accuracy within 3 points.",
        commands(NO_NORM, study="temporal"),
        _no_norm,
        PER_SAMPLE,
    ),
    Claim(
        "C28",
        "vanilla FA beats DFA and does not collapse",
        "0.401 ± 0.009 against 0.306 ± 0.008, +5.2 pp over frozen; cosine per block +0.016 +0.072 −0.085 +0.997",
        f"On every seed FA {AS_SOURCE} is more accurate than DFA and passes (a) and (b) after 100 epochs, at d = 512 "
        "with 4 and 8 blocks after 30 too where that is on record; mean accuracies and the margin within 3 points, the "
        "mean cosine of each block within 0.05.",
        commands(SOURCE, DEPTH),
        _fa,
        STEM,
    ),
    Claim(
        "C31",
        "FA's alignment is one block: the last",
        "+0.016 +0.072 −0.085 +0.997 per block, so a mean of 0.250 and a “deep” mean of 0.33",
        f"On every seed of FA {AS_SOURCE}, after 100 epochs, the last block's cosine is 0.9 or more and no other's "
        "larger than 0.2; the mean over seeds of each is within 0.05 of the published one.",
        COMMANDS[SOURCE],
        _one_block,
        STEM,
    ),
    Claim(
        "C32",
        "the real StudentNet under DFA never fires (a)",
        "growth ≤ 6.9 in 80 epochs",
        f"(a) fires at no epoch of any seed of DFA {AS_SOURCE} on StudentNet with tanh, 80 epochs; the largest growth "
        "is at most twice the published one. The teacher's data are this project's own.",
        commands(STUDENT, study="temporal"),
        _student,
    ),
    Claim(
        "C33",
        "ResMLP without a terminal norm: DFA's stream explodes, its gradient does not vanish",
        "(a) epoch 18, 14, 25; ‖h_L‖ 1.2e7, ‖g_L‖ 7.2e-4; (b) never",
        f"In the 100-epoch runs (a) fires and (b) does at no epoch on every seed of DFA {AS_SOURCE}; the epoch is "
        "within a factor of two of the published ones, ‖h_L‖ and ‖g_L‖ at the end within a factor of ten.",
        commands(NO_NORM, study="temporal"),
        _no_norm_norms,
        PER_SAMPLE,
    ),
    Claim(
        "C34",
        "with random targets DFA and the bridges grow, EP does not",
        "‖h_L‖ DFA 14,510, State Bridge 6,225, Credit Bridge 19,974 at epoch 3; EP 586 at epoch 5",
        f"On every seed ‖h_L‖ of DFA and both bridges {AS_SOURCE} is {GROWN:g} times that of the untrained network or "
        f"more at epoch 3, and EP's under {GROWN:g} times at epoch 5; each within a factor of ten of the published.",
        COMMANDS[RANDOM],
        _random_targets,
        EP_IS_STABLE,
    ),
    Claim(
        "C35",
        "without skips (a) and (b) still fire",
        "‖h_L‖ 3e7–1e8, ‖g_L‖ 1–3e-10",
        f"(a) and (b) fire on every seed of DFA {AS_SOURCE} on ResMLP without skips, with its terminal norm, after 100 "
        "epochs; ‖h_L‖ and ‖g_L‖ within a factor of ten of the published ranges.",
        COMMANDS[NO_SKIP],
        _no_skip,
    ),
)
