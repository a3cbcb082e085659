"""The demonstration: BP against scaled DFA on a generated data set, each with its matched frozen baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from walkback.lab.present.networks import networks_in
from walkback.lab.runs.baselines import finished_report, matched_baseline
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.hardware import CPU, checked_word
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.present.figures.over_epochs import History
from walkback.present.method_names import SCALED_DFA
from walkback.present.network import Network
from walkback.protocol.records import DiagnosticReport, Measurements

LABELS = {"bp": "BP", "dfa": SCALED_DFA}


@dataclass(frozen=True)
class Shown:
    """One network of the demonstration."""

    method: str
    """What its files are called by; on reports it has a label, because its DFA is not the textbook's."""
    report: DiagnosticReport
    history: History
    network: Network


def configs(epochs: int = 8, seed: int = 0, precision: str = "fp32") -> list[RunConfig]:
    """A residual MLP with a terminal LayerNorm, trained by BP and by scaled DFA."""
    common: dict[str, Any] = {
        "architecture": "resmlp", "data": "synthetic_teacher", "seed": seed, "epochs": epochs,
        "learning_rate": 3e-3, "architecture_options": {"width": 128}, "precision": precision,
    }  # fmt: skip
    return [
        RunConfig(method="bp", **common),
        RunConfig(method="dfa", method_options={"credit_norm": "per_sample"}, **common),
    ]


def demonstrate(
    store: RunStore,
    tell: Callable[[str], None],
    epochs: int = 8,
    seed: int = 0,
    precision: str = "fp32",
    device: str = CPU,
) -> list[Shown]:
    """Train the networks and their baselines in a store, and judge them."""
    checked_word(device)  # one that is not there is told before anything is trained
    shown = []
    for config in configs(epochs, seed, precision):
        label = LABELS[config.method]
        tell(f"{label}: training {epochs} epochs")
        run = train_or_resume(config, store, device=device)
        baseline = matched_baseline(config)
        assert baseline is not None
        tell(f"{label}: the same again with its blocks frozen at random, for (d)")
        frozen = train_or_resume(baseline, store, device=device)
        report = finished_report(store, config).model_copy(update={"method_name": label})
        (network,) = networks_in([run.run_id], store)
        course = history(label, run.result()["trace"], frozen.result()["trace"])
        shown.append(Shown(config.method, report, course, replace(network, report=report)))
    return shown


def history(label: str, trace: list[dict[str, Any]], frozen: list[dict[str, Any]] | None = None) -> History:
    """A run's trace as what the four panels draw."""
    return History(
        label=label,
        growth=[Measurements(residual_norms=e.get("residual_norms")).max_per_block_growth for e in trace],
        gradient=[e["bp_grad_norms"][-1] if "bp_grad_norms" in e else None for e in trace],
        stability=[_middle(e.get("site_stabilities")) for e in trace],
        accuracy=[e["accuracy"] for e in trace],
        frozen_accuracy=[e["accuracy"] for e in frozen or []],
    )


def _middle(sites: list[float] | None) -> float | None:
    return None if sites is None else sites[(len(sites) - 1) // 2]
