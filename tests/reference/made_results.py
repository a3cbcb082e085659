"""Audits and runs made up by hand, with answers that are known: what studies and evidence are tested on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from walkback.protocol.judge import judge
from walkback.protocol.records import Alignment, DiagnosticReport, Measurements, NullAlignment

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
    rho: float | None = 0.001,
    gamma: Sequence[float] | None = None,
    error: float = 0.8,
    scale_free: float | None = 9.0,
    fidelity: float | None = 1.0,
    orders: Mapping[str, float] | None = None,
    with_null: NullAlignment | None = None,
) -> DiagnosticReport:
    """A judged network: `h` at the deepest site, reached by one block that multiplies by `growth`."""
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
        drift_shares=None if rho is None else [rho] * SITES,
        headline_acc=acc,
        headline_samples=10_000,
        frozen_baseline_acc=frozen,
        frozen_baseline_samples=None if frozen is None else 10_000,
        alignment=alignment,
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


def write_run(results: Path, run_id: str, trace: Sequence[Mapping[str, Any]], **others: Any) -> None:
    content = {"id": run_id, "trace": list(trace), "test_samples": 10_000} | others
    write(results / "runs" / f"{run_id}.json", content)


def row(label: str, seed: int, run_id: str = "", baseline: str = "", error: str = "") -> dict[str, Any]:
    """One entry of an audit's `runs`."""
    return {
        "label": label, "method": label.split(":")[0], "seed": seed, "id": run_id,
        "command": f"walkback train … {run_id}", "error": error,
        "baseline": baseline, "baseline_command": "walkback train …",
        "baseline_error": "" if baseline else "not finished",
    }  # fmt: skip


def write_audit(
    results: Path, name: str, reports: Sequence[DiagnosticReport], rows: Sequence[Mapping[str, Any]] = ()
) -> Path:
    content = {
        "audit_version": 1, "name": name, "config": {}, "reports": [r.to_dict() for r in reports], "runs": list(rows),
    }  # fmt: skip
    return write(results / f"audit_{name}.json", content)
