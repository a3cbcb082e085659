"""Audits and runs made up by hand, with answers that are known: what studies and evidence are tested on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from walkback.lab.runs.ids import run_id_of
from walkback.protocol.judge import judge
from walkback.protocol.records import Alignment, DiagnosticReport, Interval, Measurements, NullAlignment

SITES = 5


def null(mean: float = 0.0, sd: float = 0.01) -> NullAlignment:
    return NullAlignment(
        draws=8, site_means=[mean] * SITES, site_sds=[sd] * SITES, site_z=[0.0] * SITES, deep_mean=mean, deep_sd=sd,
        deep_z=0.0,
    )  # fmt: skip


def network(
    label: str,
    seed: int = 42,
    *,
    acc: float = 0.6,
    frozen: float | None = 0.35,
    h: float = 200.0,
    growth: float = 1.1,
    g: float = 3e-4,
    c: float = 0.1,
    c_interval: tuple[float, float] | None = None,
    rho: float | None = 0.001,
    gamma: Sequence[float] | None = None,
    error: float = 0.8,
    scale_free: float | None = 9.0,
    fidelity: float | None = 1.0,
    orders: Mapping[str, float] | None = None,
    with_null: NullAlignment | None = None,
    classes: int | None = 10,
) -> DiagnosticReport:
    """A judged network: `h` at the deepest site, reached by one block that multiplies by `growth`."""
    drift = None
    if c_interval is not None:
        drift = Interval(low=c_interval[0], high=c_interval[1], level=0.95, how="made up")
    alignment = None
    if gamma is not None:
        deep = sum(gamma[1:]) / (len(gamma) - 1)
        alignment = Alignment(sites=gamma, deep=deep, orders=dict(orders or {}), null=with_null)
    measured = Measurements(
        residual_norms=[h / growth, *[h] * (SITES - 1)],
        bp_grad_norms=[g] * SITES,
        error_size=error,
        scale_free_gradients=None if scale_free is None else [scale_free] * SITES,
        reference_fidelity=None if fidelity is None else [fidelity] * SITES,
        stability_layer=2,
        cross_batch_stability=c,
        cross_batch_stability_interval=drift,
        drift_shares=None if rho is None else [rho] * SITES,
        headline_acc=acc,
        headline_samples=10_000,
        frozen_baseline_acc=frozen,
        frozen_baseline_samples=None if frozen is None else 10_000,
        alignment=alignment,
        classes=classes,
    )
    return judge(measured, method_name=label, seed=seed)


def epoch(
    number: int,
    *,
    acc: float = 0.5,
    growth: float = 1.1,
    g: float = 1e-3,
    c: float = 0.1,
    gamma: Sequence[float] = (0.4, 0.0, 0.0, 0.0, 0.0),
    seconds: float = 2.0,
) -> dict[str, Any]:
    """One line of a trace."""
    return {
        "epoch": number, "accuracy": acc, "learning_rate": 1e-3, "seconds": seconds,
        "residual_norms": [10.0, *[10.0 * growth] * (SITES - 1)], "bp_grad_norms": [g] * SITES,
        "site_stabilities": [c] * SITES, "drift_shares": [0.001] * SITES, "error_size": 0.8,
        "alignment": list(gamma), "deep_alignment": sum(gamma[1:]) / 4,
    }  # fmt: skip


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def settings_of(name: str) -> dict[str, Any]:
    """The settings of a run that is called so in a test: its own, by its seed."""
    seed = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
    options = {"method_options": {}, "architecture_options": {}, "data_options": {}}
    return {"method": "bp", "architecture": "resmlp", "data": "digits", "seed": seed, "epochs": 1} | options


def made_id(name: str) -> str:
    """The id that a run which is called so in a test has."""
    return run_id_of(settings_of(name))


def run_file(results: Path, name: str) -> Path:
    return results / "runs" / f"{made_id(name)}.json"


def write_run(results: Path, name: str, trace: Sequence[Mapping[str, Any]], **others: Any) -> None:
    content = {"id": made_id(name), "config": settings_of(name), "trace": list(trace), "test_samples": 10_000}
    write(run_file(results, name), content | others)


def row(label: str, seed: int, run_id: str = "", baseline: str = "", error: str = "") -> dict[str, Any]:
    """One entry of an audit's `runs`; runs are called as in `write_run`."""
    return {
        "label": label, "method": label.split(":")[0], "seed": seed, "id": made_id(run_id) if run_id else "",
        "command": f"walkback lab train … {run_id}", "error": error,
        "baseline": made_id(baseline) if baseline else "", "baseline_command": "walkback lab train …",
        "baseline_error": "" if baseline else "not finished",
    }  # fmt: skip


def write_audit(
    results: Path, name: str, reports: Sequence[DiagnosticReport], rows: Sequence[Mapping[str, Any]] = ()
) -> Path:
    content = {
        "audit_version": 1, "name": name, "config": {}, "reports": [r.to_dict() for r in reports], "runs": list(rows),
    }  # fmt: skip
    return write(results / f"audit_{name}.json", content)
