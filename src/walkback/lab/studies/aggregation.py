"""Does one block carry the alignment, at every depth? Γ block by block, and the mean without the block that carries it.

Where one block alone is aligned, the mean behind the first falls as 1/(L − 1) with the depth L, and the sum over those
blocks stays near 1: a mean that falls with depth then tells of its denominator, and of nothing that got worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from walkback.lab.studies.audited import Audit
from walkback.lab.studies.base import Parts, Result, Study, shown
from walkback.lab.studies.scaling import size_of
from walkback.present.numbers import signed
from walkback.present.page import Grid
from walkback.protocol.carrying import carried_by_one
from walkback.protocol.records import DiagnosticReport

COMMAND = "walkback lab audit --preset source_depth"
SOURCES = "fa_block"
"""The source study's FA, whose last block gets the exact gradient."""


def answer(audit: Audit) -> dict[str, Any]:
    """One entry for each network with Γ at every block, and what carries the mean of each method."""
    runs = [_run(report, *named) for report in audit.reports if (named := _named(report)) is not None]
    return {"runs": runs, "methods": _methods(runs)}


def _named(report: DiagnosticReport) -> tuple[str, int] | None:
    return size_of(report.method_name, "depth")


def _run(report: DiagnosticReport, method: str, depth: int) -> dict[str, Any]:
    sites = list(report.alignment.sites or ()) if report.alignment is not None else []
    blocks, carried = sites[:-1], next(iter(carried_by_one(sites)), None)
    return {
        "label": report.method_name,
        "method": method,
        "depth": depth,
        "seed": report.seed,
        "accuracy": report.headline_acc,
        "blocks": blocks,
        "mean": _mean(blocks),
        "behind_the_first": _mean(blocks[1:]),
        "sum_behind_the_first": math.fsum(blocks[1:]) if blocks[1:] else None,
        "carried_by": None if carried is None else carried.site,
        "read": None if carried is None else carried.read,
        "without": None if carried is None else carried.without,
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _methods(runs: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Of each method: how many networks were measured, on how many one site carries a mean, and which at each depth."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        if not run["blocks"]:
            continue
        of = found.setdefault(run["method"], {"of": 0, "carried": 0, "depths": [], "where": {}})
        of["of"] += 1
        of["depths"] = sorted({*of["depths"], run["depth"]})
        if run["carried_by"] is not None:
            of["carried"] += 1
            at = of["where"].setdefault(str(run["depth"]), [])
            at += [run["carried_by"]] if run["carried_by"] not in at else []
    return found


def paragraphs(result: Result) -> Parts:
    """One row for each network, then what carries the mean of each method."""
    headings = (
        "method",
        "blocks",
        "seed",
        "Γ per block",
        "mean",
        "behind the first",
        "sum",
        "carried by",
        "without it",
    )
    rows = [
        [
            run["method"],
            str(run["depth"]),
            str(run["seed"]),
            " ".join(signed(value) for value in run["blocks"]) or "not measured",
            *(shown(run[name], signed) for name in ("mean", "behind_the_first", "sum_behind_the_first")),
            "–" if run["carried_by"] is None else _carrier(run),
            shown(run["without"], signed),
        ]
        for run in sorted(result["runs"], key=lambda run: (run["method"], run["depth"]))
    ]
    words = [_words(method, of) for method, of in sorted(result["methods"].items())]
    missing = [] if SOURCES in result["methods"] else [f"It has no row of {SOURCES}; these are made by: {COMMAND}"]
    return [Grid(headings, rows, "lrrlrrrlr"), *words, *missing]


def _carrier(run: Result) -> str:
    site = run["carried_by"]
    return f"h_{site}, read by block {site + 1}" if run["read"] else f"h_{site}, written by block {site}"


def _words(method: str, of: Result) -> str:
    depths = ", ".join(map(str, of["depths"]))
    if not of["carried"]:
        return f"{method}: no block carries a mean on any of {of['of']} networks, of {depths} blocks."
    sites = {depth: " or ".join(f"h_{site}" for site in sorted(at)) for depth, at in of["where"].items()}
    where = ", ".join(f"{at} at {depth} blocks" for depth, at in sorted(sites.items(), key=lambda pair: int(pair[0])))
    return f"{method}: one site carries a mean on {of['carried']} of {of['of']} networks: {where}."


STUDY = Study(
    "aggregation",
    "Does one block carry the alignment, at every depth?",
    "Γ of each block, at the site that it reads, on networks of several depths; their mean, the mean behind the first "
    "block, and the sum over the same. One site carries a mean, over the sites that blocks read or over those that "
    "they write, where less than half of it is left without that site. Where one block alone is aligned, the mean "
    "behind the first is about 1/(L - 1) and the sum about 1 at every depth L: the mean falls with depth, and no block "
    "is aligned any worse. The source study reports this of its FA, whose last block has the exact gradient (C31), and "
    f"that DFA's first site carries Γ at every depth (C42); the runs of these are made by: {COMMAND}",
    answer,
    paragraphs,
    lambda audit: any(_named(report) is not None and report.alignment is not None for report in audit.reports),
    f"it needs Γ per block at several depths, in rows such as 'fa_block depth 4': {COMMAND}",
)
