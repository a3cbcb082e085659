"""The second example, cut to one epoch, on the real data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from walkback.lab.zoo.datasets import fetch

EXAMPLE = Path(__file__).parents[3] / "examples" / "02_dfa_on_cifar10.py"


@pytest.mark.slow
def test_it_trains_and_prints_the_report(tmp_path):
    fetch("cifar10", progress=print)  # from the cache, or from wherever it can be had
    done = subprocess.run(
        [sys.executable, EXAMPLE, "1"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    assert "epoch 1/1: accuracy 0." in done.stdout
    assert "verdict: " in done.stdout
    assert "--freezing blocks" in " ".join(done.stdout.split())
