"""Networks to draw: the recorded audit, two recorded courses, and small runs that a test trains."""

from __future__ import annotations

from pathlib import Path

from walkback.lab.present.networks import networks_in
from walkback.lab.runs.baselines import matched_baseline
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.present.network import Network

GOLDEN = Path(__file__).parents[1] / "golden"
AUDIT = GOLDEN / "resmlp_d256_audit_3seed.json"
TRACES = [GOLDEN / "resmlp_bp_s42_trace.jsonl", GOLDEN / "resmlp_dfa_s42_trace.jsonl"]


def shown(*paths: Path) -> list[Network]:
    return networks_in([str(path) for path in paths], RunStore("nowhere", "nowhere"))


def trained(folder: Path, *methods: tuple[str, dict], architecture: str = "resmlp") -> RunStore:
    """Runs of digits with their frozen baselines, in a store; two epochs of two steps each."""
    store = RunStore(folder / "runs", folder / "results" / "runs")
    for method, options in methods:
        config = RunConfig(
            method=method, architecture=architecture, data="digits", seed=7, epochs=2, batch_size=640,
            learning_rate=0.01, method_options=options, architecture_options={"width": 12, "depth": 2},
        )  # fmt: skip
        for each in (config, matched_baseline(config)):
            store.keep(train_or_resume(each, store))
    return store
