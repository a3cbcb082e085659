"""All that walkback does with a network in JAX, in one process that must not import torch; prints what it measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import plain_networks as net

import walkback
import walkback.jax


def main(folder):
    """Measure, judge, render, trace, replay and test a credit."""
    given = {"stem": net.stem, "head": net.head, "credit": net.feedback(), "initial": net.parameters(1)}
    report = walkback.jax.diagnose(
        net.apply, net.parameters(), net.BLOCKS, net.batches(300, 128), functional=6, readouts=True,
        frozen_baseline_acc=walkback.Score(value=0.2, samples=300), method_name="DFA", seed=1, **given,
    )  # fmt: skip
    assert report.to_text()
    assert report.to_markdown()
    assert report.to_latex()
    report.save(folder / "report.json")
    assert walkback.DiagnosticReport.load(folder / "report.json").outcome == report.outcome
    monitor = walkback.jax.Monitor(
        net.apply, net.parameters(), net.BLOCKS, net.batches(256, 128), trace=folder / "trace.jsonl", every=1,
        stem=net.stem, head=net.head,
    )  # fmt: skip
    assert not monitor.step(net.parameters()).stop
    assert walkback.replay(folder / "trace.jsonl")
    assert "torch" not in sys.modules
    names = ("residual_norms", "bp_grad_norms", "drift_shares", "block_movement", "growth_from_init")
    print(json.dumps({name: getattr(report, name) for name in names}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
