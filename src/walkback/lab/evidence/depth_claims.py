"""Claims on depth, on the ladder of blocks that learn, on CIFAR-100, and on a problem whose costate is known."""

from __future__ import annotations

from itertools import pairwise

from walkback.lab.evidence.alignment_claims import at_site_zero
from walkback.lab.evidence.claim import COSINE_TOLERANCE, Claim, Outcome, near, weighed
from walkback.lab.evidence.deciding import accuracy, count, fires, known, mean, span
from walkback.lab.evidence.results import NotOnRecordError, Results
from walkback.lab.evidence.source_deciding import (
    AS_SOURCE,
    COMMANDS,
    DEPTH,
    LADDER,
    TWO_BLOCKS,
    block_cosines,
    block_gamma,
    of_each_seed,
    shared_seeds,
)
from walkback.present.numbers import signed, written

TEN = 10
BLOCKS = 4
CIFAR100, TOY = "source_cifar100", "toy_costate.json"
COSTATE = {"dfa": 0.001, "state_bridge": 0.945, "credit_bridge": 0.944}
CIFAR100_PUBLISHED = {"bp": 0.321, "fa_block": 0.133, "dfa": 0.088}


def _two_blocks(results: Results) -> Outcome:
    reports = results.reports(TWO_BLOCKS, "fa_block depth 2")
    if len(reports) < TEN:
        raise NotOnRecordError(f"audit_{TWO_BLOCKS}.json has {len(reports)} of {TEN} seeds")
    fails = [fires(report, "d") for report in reports]
    under = [known(report.reading("d").value, "the margin", report) < 0 for report in reports]
    gammas = [block_gamma(report) for report, failed in zip(reports, fails, strict=True) if failed]
    figures = {
        "some seeds are under frozen": [any(under)],
        "some are not": [not all(under)],
        "Γ where (d) fires is as published": [near(gamma, 0.47, 0.49, COSINE_TOLERANCE) for gamma in gammas],
    }
    words = f"(d) fires on {count(fails, 'seeds')}, under frozen are {sum(under)}; Γ where it fires {span(gammas)}"
    words += f"; margins in points {span(report.reading('d').value for report in reports)}"
    return weighed(words, {"(d) fires on some seed": [any(fails)]}, figures)


def _every_depth(results: Results) -> Outcome:
    reports = results.reports(DEPTH, "dfa depth 4", "dfa depth 8")
    agree, words = at_site_zero(reports)
    close = [near(block_cosines(report)[0], 0.377, 0.400, COSINE_TOLERANCE) for report in reports]
    words = f"{count(agree, 'networks')} of 4 and 8 blocks: {words}"
    return weighed(words, {"site 0 alone is aligned": agree}, {"its cosine at site 0 is as published": close})


def _rungs(results: Results, method: str) -> list[list[float]]:
    """For each seed the accuracy with the last k blocks learning, k = 0 … L; k = 0 is the frozen baseline."""
    rungs = [of_each_seed(results, LADDER, f"{method} ladder {k}") for k in range(1, BLOCKS + 1)]
    found = []
    for seed in shared_seeds(*rungs):
        frozen = known(rungs[0][seed].frozen_baseline_acc, "the frozen baseline", rungs[0][seed])
        found.append([frozen, *(accuracy(rung[seed]) for rung in rungs)])
    return found


def _ladder(results: Results) -> Outcome:
    bp, dfa = (_rungs(results, method) for method in ("bp", "dfa"))
    rises = [all(low < high for low, high in pairwise(rungs)) for rungs in bp]
    frozen_best = [rungs[0] > max(rungs[1:]) for rungs in dfa]
    gained = [100 * (rungs[-1] - rungs[0]) for rungs in bp]
    words = (
        f"BP rises with every k on {count(rises, 'seeds')}, in all by {span(gained)} points; DFA is best at k = 0 on "
    )
    words += f"{count(frozen_best, 'seeds')}; means by k: BP {_means(bp)}, DFA {_means(dfa)}"
    cases = {"BP rises with every block that learns": rises, "DFA is best with none": frozen_best}
    return weighed(words, cases, {"BP gains as much as published": [near(gain, 22, 23, 3.0) for gain in gained]})


def _means(seeds: list[list[float]]) -> str:
    return " ".join(written(mean(rung)) for rung in zip(*seeds, strict=True))


def _cifar100(results: Results) -> Outcome:
    if not results.has(f"audit_{CIFAR100}.json"):
        raise NotOnRecordError(
            f"audit_{CIFAR100}.json is not on record: walkback has no loader of CIFAR-100, whose files were not to be "
            "had where the record was made"
        )
    reports = {label: results.reports(CIFAR100, label) for label in CIFAR100_PUBLISHED}
    frozen = {
        label: [known(r.frozen_baseline_acc, "the frozen baseline", r) for r in reports[label]]
        for label in ("fa_block", "dfa")
    }
    agree = [accuracy(r) < low for label in frozen for r, low in zip(reports[label], frozen[label], strict=True)]
    means = {label: mean(map(accuracy, found)) for label, found in reports.items()}
    figures = {
        "mean accuracies are as published": [near(means[label], x, x) for label, x in CIFAR100_PUBLISHED.items()],
        "frozen accuracies are as published": [near(mean(scores), 0.178, 0.178) for scores in frozen.values()],
    }
    words = ", ".join(f"{label} {written(value)}" for label, value in means.items())
    low = ", ".join(f"{label} {written(mean(scores))}" for label, scores in frozen.items())
    words = f"under frozen are {count(agree, 'networks')}; {words}; frozen {low}"
    return weighed(words, {"FA and DFA are under frozen": agree}, figures)


def _costate(results: Results) -> Outcome:
    found = results.read(TOY)
    cosines = {method: float(found[method]) for method in COSTATE}
    agree = [cosines[method] >= 0.9 for method in ("state_bridge", "credit_bridge")]
    close = [near(cosines[method], value, value, COSINE_TOLERANCE) for method, value in COSTATE.items()]
    words = ", ".join(f"{label} {signed(value)}" for label, value in cosines.items())
    return weighed(words, {"both bridges reach 0.9": agree}, {"the cosines are as published": close})


CLAIMS = (
    Claim(
        "C39",
        "FA fails (d) at d = 512 with two blocks on some seeds, at Γ ≈ 0.48",
        "3 of 10 seeds under frozen, 0.341–0.347 against 0.349, at Γ +0.47 to +0.49",
        f"Of ten seeds of FA {AS_SOURCE}, after 30 epochs, some and not all are less accurate than their matched "
        "frozen baselines, and wherever (d) fires, Γ (the mean over blocks) is within 0.05 of the published range. "
        "Partly: (d) fires on some.",
        COMMANDS[TWO_BLOCKS],
        _two_blocks,
    ),
    Claim(
        "C40",
        "CIFAR-100: FA and DFA are under frozen",
        "BP 0.321, FA 0.133, DFA 0.088, frozen 0.178",
        f"On every seed FA and DFA {AS_SOURCE} are less accurate than their matched frozen baselines; mean accuracies "
        "within 3 points. Partly: some seeds or one of the methods.",
        f"walkback lab audit --arch resmlp --data cifar100 --methods bp fa_block dfa --epochs 100 --name {CIFAR100}",
        _cifar100,
    ),
    Claim(
        "C41",
        "ladder: BP rises with the number k of blocks that learn, DFA is best at k = 0",
        "BP +22–23 pp",
        f"On every seed BP is more accurate with every further block that learns, from the last one on, by a total "
        f"within 3 points of the published one, and DFA {AS_SOURCE} most accurate with none. 30 epochs; k = 0 is the "
        "matched frozen baseline. Partly: some of these.",
        COMMANDS[LADDER],
        _ladder,
    ),
    Claim(
        "C42",
        "DFA's site 0 carries Γ at every depth",
        "site 0 +0.377 to +0.400 with 2 to 12 blocks at d = 512, deep −0.005 to 0",
        f"On every seed of DFA {AS_SOURCE} with 4 and 8 blocks at d = 512, after 30 epochs, the cosine at site 0 is "
        "above 0.2, within 0.05 of the published range, and its mean over the blocks behind the first below 0.05.",
        COMMANDS[DEPTH],
        _every_depth,
    ),
    Claim(
        "C43",
        "both bridges recover the costate of a linear-quadratic problem",
        "cosine DFA 0.001, State Bridge 0.945, Credit Bridge 0.944",
        f"The mean cosine to the costate is 0.9 or more of both bridges {AS_SOURCE}, and of all three methods within "
        "0.05 of the published one. Partly: one of the bridges.",
        "python tools/toy_costate.py",
        _costate,
        "The sizes of the problem, its targets and the training of the bridges are this project's: the source's "
        "problem has 64 dimensions and twelve steps. They were chosen so that LayerNorm leaves room for 0.97.",
    ),
)
