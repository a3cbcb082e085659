"""Ratios in one run: every variant is timed in turn, round by round, so that all share the machine's mood."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"


LOAD = {"load_average": round(os.getloadavg()[0], 2), "cores": os.cpu_count() or 1}
"""How busy the machine was when the benchmark began: the load of the minute before, and its cores."""


def interleaved(variants: Mapping[str, Callable[[], object]], rounds: int, seed: int = 0) -> dict[str, list[float]]:
    """CPU seconds of each variant in each round, in a shuffled order; the first round only warms up."""
    order = random.Random(seed)
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for round_number in range(rounds + 1):
        for name in order.sample(list(variants), len(variants)):
            started = time.process_time()
            variants[name]()
            if round_number:
                seconds[name].append(time.process_time() - started)
    return seconds


def ratio(seconds: Mapping[str, list[float]], name: str, reference: str) -> dict[str, float]:
    """The median over rounds of one variant's time over the reference's in the same round, and its quartiles."""
    ratios = [a / b for a, b in zip(seconds[name], seconds[reference], strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return {"ratio": median, "lower_quartile": low, "upper_quartile": high, "rounds": len(ratios)}


def exponent(rows: Sequence[Mapping[str, float]], over: str, what: str) -> float:
    """The exponent with which a figure grows from the second-largest to the largest: 1 is linear."""
    before, last = rows[-2:]
    return math.log(last[what] / before[what]) / math.log(last[over] / before[over])


def write(name: str, content: dict[str, object]) -> Path:
    """Write results/NAME.json with what it takes to run it again."""
    import torch

    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, cwd=RESULTS.parent, check=False)
    about = {
        "command": f"python benchmarks/{Path(sys.argv[0]).name}",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": commit.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} thread",
        **LOAD,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(about | content, indent=1) + "\n")
    return path
