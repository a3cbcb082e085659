"""How often does each diagnostic fire on healthy networks, and what tells those firings from failures?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walkback.lab.studies.audited import Audit, TracedRun
from walkback.lab.studies.base import Parts, Result, Study, shown
from walkback.present.numbers import percent
from walkback.present.page import Grid, Heading
from walkback.protocol.diagnostics.frozen_margin import FrozenMargin
from walkback.protocol.diagnostics.gradient_floor import GradientFloor
from walkback.protocol.panels.april2026 import APRIL_2026
from walkback.protocol.records import DiagnosticReport, State

PUBLISHED = tuple(member.letter for member in APRIL_2026.members if member.letter != FrozenMargin.letter)
"""(d) is about what the blocks add, and these runs have no baseline."""


def answer(audit: Audit) -> dict[str, Any]:
    """Rates of firing, and every network that fires with the figures beside the diagnostics."""
    letters = _letters(audit.reports)
    rates = {letter: _rate([_state(report, letter) for report in audit.reports]) for letter in letters}
    courses = [_ever(run) for run in audit.traces]
    ever = {letter: {"fired": sum(letter in c for c in courses), "of": len(courses)} for letter in letters}
    return {"rates": rates, "ever": ever, "networks": [_network(report, letters) for report in audit.reports]}


def _letters(reports: Sequence[DiagnosticReport]) -> list[str]:
    """The published diagnostics, and others that were measured on some network."""
    found = [r.letter for report in reports for r in report.readings if r.state in (State.PASS, State.FIRE)]
    return list(dict.fromkeys([*PUBLISHED, *(letter for letter in found if letter != FrozenMargin.letter)]))


def _state(report: DiagnosticReport, letter: str) -> State:
    return next((r.state for r in report.readings if r.letter == letter), State.NOT_MEASURED)


def _rate(states: Sequence[State]) -> dict[str, int]:
    return {"fired": states.count(State.FIRE), "of": len(states) - states.count(State.NOT_MEASURED)}


def _ever(run: TracedRun) -> set[str]:
    """The diagnostics that fire at some epoch from 1 on."""
    readings = (reading for epoch in range(1, len(run.records)) for reading in run.report(epoch).readings)
    return {reading.letter for reading in readings if reading.state is State.FIRE}


def _network(report: DiagnosticReport, letters: Sequence[str]) -> dict[str, Any]:
    site = report.stability_layer
    return {
        "label": report.method_name,
        "seed": report.seed,
        "accuracy": report.headline_acc,
        "fired": "".join(r.letter for r in report.readings if r.state is State.FIRE and r.letter in letters),
        "case": report.reading(GradientFloor.letter).case,
        "growth": report.max_per_block_growth,
        "last_gradient": report.bp_grad_norms[-1] if report.bp_grad_norms else None,
        "stability": report.cross_batch_stability,
        "error_size": report.error_size,
        "scale_free": report.scale_free_gradients[-1] if report.scale_free_gradients else None,
        "fidelity": min(report.reference_fidelity) if report.reference_fidelity else None,
        "drift_share": report.drift_shares[site] if report.drift_shares and site is not None else None,
    }


def paragraphs(result: Result) -> Parts:
    """The rates, then the networks that fire."""
    counted = [result[when] for when in ("rates", "ever")]
    rates = [[f"({n})", *(f"{count[n]['fired']} of {count[n]['of']}" for count in counted)] for n in result["rates"]]
    names = ("growth", "last_gradient", "stability", "error_size", "scale_free", "fidelity", "drift_share")
    fired = [
        [
            network["label"],
            str(network["seed"]),
            percent(network["accuracy"]),
            f"({network['fired']})",
            network["case"] or "–",
            *(shown(network[name]) for name in names),
        ]
        for network in result["networks"]
        if network["fired"]
    ]
    headings = ("network", "seed", "accuracy", "fired", "why (b)", "growth", "‖g_L‖", "(c)", "error", "scale-free")
    return [
        Grid(("", "fires at the end", "fires at some epoch"), rates, "lrr"),
        Heading("Networks that fire", 3),
        Grid((*headings, "fidelity", "ρ"), fired, "lrrllrrrrrrr"),
    ]


STUDY = Study(
    "false-positives",
    "How often does each diagnostic fire on a healthy network?",
    "Networks trained by BP alone, over easy and hard data, fitted to the end or barely begun, pre- and post-norm, "
    "depth, width and optimizer. Beside each firing: the error size, the scale-free gradient, the fidelity to fp64 and "
    "the drift share ρ, which are there to tell such firings from failures. (d) is not counted: these networks have no "
    "frozen baselines.",
    answer,
    paragraphs,
    lambda audit: bool(audit.rows) and all(row["method"] == "bp" for row in audit.rows),
    "it needs an audit of BP alone: walkback lab audit --preset false_positives",
)
