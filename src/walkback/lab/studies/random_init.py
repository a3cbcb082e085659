"""Does the protocol flag poor accuracy, or measurements? Epoch 0 of every trace: the untrained network.

One seed gives one initial network, whatever the method, so there is one row for each seed; of a grid that holds several
networks, one for each of them. (d) is left out: an untrained network is its own frozen baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun, chance_of, measurements
from walkback.lab.studies.base import Parts, Result, Study, number
from walkback.present.numbers import percent, written
from walkback.present.page import Grid
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, State

NEAR_CHANCE_PP = 5.0


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each network: runs of one seed that measure the same before any step are one."""
    by_network: dict[tuple[int, Any], list[TracedRun]] = {}
    for run in audit.traces:
        first = run.records[0]
        seen = (first.accuracy, first.residual_norms, first.bp_grad_norms, first.site_stabilities)
        by_network.setdefault((run.seed, seen), []).append(run)
    chances = {(report.method_name, report.seed): chance_of(report) for report in audit.reports}
    return {
        "chance": audit.chance,
        "near_chance_pp": NEAR_CHANCE_PP,
        "networks": [
            _network(seed, runs, chances.get((runs[0].label, seed))) for (seed, _), runs in by_network.items()
        ],
    }


def _network(seed: int, runs: Sequence[TracedRun], chance: float | None) -> dict[str, Any]:
    first = runs[0].records[0]
    report = judge(measurements(first), seed=seed)
    return {
        "seed": seed,
        "methods": [run.label for run in runs],
        "accuracy": first.accuracy,
        "near_chance": None if chance is None else abs(100 * (first.accuracy - chance)) <= NEAR_CHANCE_PP,
        "residual_norms": first.residual_norms,
        "bp_grad_norms": first.bp_grad_norms,
        "growth": report.max_per_block_growth,
        "stability": report.cross_batch_stability,
        "drift_share": _share(report),
        "fired": [r.letter for r in report.readings if r.state is State.FIRE],
        "verdict": report.verdict,
    }


def _share(report: DiagnosticReport) -> float | None:
    shares, site = report.drift_shares, report.stability_layer
    return None if shares is None or site is None else shares[site]


def paragraphs(result: Result) -> Parts:
    """One row for each network, with its methods where a seed has several."""
    networks = result["networks"]
    headings = ["seed", "accuracy", "‖h_0‖", "‖h_L‖", "growth", "‖g_0‖", "‖g_L‖", "(c)", "ρ", "verdict"]
    rows = [_row(network) for network in networks]
    if len({network["seed"] for network in networks}) < len(networks):
        rows = [[", ".join(n["methods"]), *row] for n, row in zip(networks, rows, strict=True)]
        return [Grid(["of", *headings], rows, "lrrrrrrrrrl")]
    return [Grid(headings, rows, "rrrrrrrrrl")]


def _row(n: Result) -> list[str]:
    h, g = n["residual_norms"] or (None,), n["bp_grad_norms"] or (None,)
    sizes = [h[0], h[-1], n["growth"], g[0], g[-1], n["stability"], n["drift_share"]]
    return [str(n["seed"]), percent(n["accuracy"]), *(written(number(v)) for v in sizes), n["verdict"]]


STUDY = Study(
    "random-init",
    "Is an untrained network trustworthy?",
    "Epoch 0 of the traces, at chance: does anything fire on a network that nobody trained? (d) does not apply, since "
    "an untrained network is its own frozen baseline.",
    answer,
    paragraphs,
)
