"""The audits of the source study's definitions, and what deciders ask of them in the study's own terms.

The study counts by block: block l reads h_l, so its cosine is the one at that site, and h_L, which no block reads, has
none. Its Γ is the mean over blocks, its deep cosine the mean over those behind the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from walkback.lab.evidence.deciding import FAILING, LONG, mean
from walkback.lab.evidence.results import NotOnRecordError, Results, Run
from walkback.protocol.records import Alignment, DiagnosticReport

SOURCE, EP = "source_resmlp_d256_100ep", "source_ep"
EP_IS_STABLE = (
    "That EP fires neither (a) nor (b): the source states neither its α nor whether its credit is normalised. In "
    "trials of 4 to 6 epochs with seed 77, EP over its RMS exploded (α 0.3 with ε as of a batch-mean loss, and α "
    "0.05), so it did unnormalised with α 0.3, and unnormalised with α 0.1 it did not: that one was taken."
)
NO_NORM, NO_SKIP = "source_no_terminal_norm", "source_no_skip"
PENALTY = "source_penalty_resmlp_d256"
RANDOM, STUDENT, LADDER = "source_random_targets", "source_student_net", "source_ladder"
DEPTH, TWO_BLOCKS, CNN = "source_depth", "source_depth_2", "source_small_cnn"
COMMANDS = {
    audit: f"walkback lab audit --preset {preset}"
    for audit, preset in {
        SOURCE: "source",
        EP: "source_ep",
        NO_NORM: "source_no_norm",
        NO_SKIP: "source_no_skip",
        PENALTY: "source_penalty",
        RANDOM: "source_random_targets",
        STUDENT: "source_student_net",
        LADDER: "source_ladder",
        DEPTH: "source_depth",
        TWO_BLOCKS: "source_depth",
        CNN: "source_small_cnn",
    }.items()
}
LONG_EPOCHS = 100
AS_SOURCE = "as the source defines it"


def commands(*audits: str, study: str = "") -> str:
    """What makes these audits, each once, and then the study of them."""
    made = dict.fromkeys(COMMANDS[audit] for audit in audits)
    return "; ".join([*made, *([f"walkback lab study {study}"] if study else [])])


def published_five(results: Results) -> list[DiagnosticReport]:
    """BP, DFA, both bridges and EP of the main audit, each of 100 epochs; BP has one definition."""
    bp, failing = results.reports(LONG, "bp"), results.reports(SOURCE, *FAILING)
    return [*bp, *failing, *results.reports(EP, "ep")]


def of_each_seed(results: Results, audit: str, label: str) -> dict[int | None, DiagnosticReport]:
    """The reports of a method by their seeds."""
    return {report.seed: report for report in results.reports(audit, label)}


def shared_seeds(*groups: dict[Any, Any], needed: int = 3) -> list[Any]:
    """The seeds that all of these have; a claim that pairs them needs so many."""
    first, *others = groups
    seeds = [seed for seed in first if all(seed in other for other in others)]
    if len(seeds) < needed:
        raise NotOnRecordError(f"the rows that the claim pairs share {len(seeds)} seeds; a claim needs {needed}")
    return seeds


def alignment_of(report: DiagnosticReport) -> Alignment:
    """Γ at every site; where it was not measured, the claim was not run."""
    if report.alignment is None or report.alignment.sites is None or len(report.alignment.sites) < 3:
        raise NotOnRecordError(f"Γ per block of {report.method_name}, seed {report.seed}, was not measured")
    return report.alignment


def block_cosines(report: DiagnosticReport) -> list[float]:
    """The cosine of each block's credit: at h_0 … h_{L−1}, the sites that blocks read."""
    cosines = list((alignment_of(report).sites or ())[:-1])
    if not all(map(math.isfinite, cosines)):
        raise NotOnRecordError(f"Γ of {report.method_name}, seed {report.seed}, is not finite at every block")
    return cosines


def block_gamma(report: DiagnosticReport) -> float:
    """Γ as the study has it: the mean over blocks."""
    return mean(block_cosines(report))


def deep_block_cosine(report: DiagnosticReport) -> float:
    """The deep cosine as the study has it: the mean over the blocks behind the first."""
    return mean(block_cosines(report)[1:])


def block_null(report: DiagnosticReport, first: int = 0) -> tuple[float, float]:
    """Mean and deviation of the same mean under fresh feedback; blocks draw theirs apart, so variances add."""
    null = alignment_of(report).null
    if null is None:
        raise NotOnRecordError(f"the null of {report.method_name}, seed {report.seed}, was not measured")
    deviations = null.site_sds[first:-1]
    return mean(null.site_means[first:-1]), math.sqrt(sum(sd**2 for sd in deviations)) / len(deviations)


def course(run: Run, name: str, epochs: int) -> list[Sequence[float]]:
    """A figure per site at every epoch of a run, the untrained network first; all of so many have to be there."""
    lines = [line for line in run.result["trace"] if line["epoch"] <= epochs]
    found: list[Sequence[float]] = [line[name] for line in lines if line.get(name)]
    if len(found) < len(lines) or len(lines) < epochs + 1:
        raise NotOnRecordError(f"{run.file} has {name} at {len(found)} of the epochs 0 to {epochs}")
    return found
