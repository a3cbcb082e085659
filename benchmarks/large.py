"""Time and memory of `diagnose` against depth and width, beside one training step: python benchmarks/large.py.

Residual MLPs of the zoo on batches of 512 samples, each size in a process of its own. Memory is the peak of resident
memory while it runs, over what the process held before (the model and the batch); the training step is forward,
backward and a first step of fused AdamW, whose state is part of what training needs. Times are CPU time, in turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Freed memory goes back to the system at once, so that a peak is what is held and not what was held before.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "65536")
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "65536")

from ratios import write

BATCH, ROUNDS = 512, 3
DEPTHS, WIDTHS = (4, 16, 64), (128, 256, 512, 1024)
DEPTH, WIDTH = 16, 256


def peak_mib(call: Callable[[], object]) -> float:
    """How far resident memory rises while something runs."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    call()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def measure(depth: int, width: int) -> dict[str, float]:
    """In a fresh process: both sides' CPU seconds and peaks, and those of the two ways to need less."""
    import torch
    import torch.nn.functional as F

    import walkback
    from walkback.lab.zoo import DataSpec, build_model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build_model("resmlp", DataSpec((3, 32, 32), 10), depth=depth, width=width)
    inputs, targets = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    # What torch and the diagnostics load once is no part of a peak.
    small = build_model("resmlp", DataSpec((3, 32, 32), 10), depth=1, width=8)
    walkback.diagnose(small, [(inputs[:8], targets[:8])], blocks="blocks.*")
    F.cross_entropy(small(inputs[:8]), targets[:8]).backward()

    def step() -> None:
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def diagnose(**options: Any) -> None:
        walkback.diagnose(model, [(inputs, targets)], blocks="blocks.*", **options)

    sides: dict[str, Callable[[], None]] = {
        "step": step,
        "diagnose": diagnose,
        "diagnose, micro_batch=64": lambda: diagnose(micro_batch=64),
        "diagnose, last four sites": lambda: diagnose(sites=slice(-4, None)),
    }
    # Peaks first: the optimizer's state, which a training step needs too, is made by the first step.
    found = {f"{name}: peak MiB": peak_mib(side) for name, side in sides.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_number in range(ROUNDS + 1):
        for name, side in sides.items():
            start = time.process_time()
            side()
            if round_number:
                seconds[name].append(time.process_time() - start)
    for name in sides:
        found[f"{name}: seconds"] = statistics.median(seconds[name])
    found["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    return found


def in_fresh_process(depth: int, width: int) -> dict[str, Any]:
    command = [sys.executable, __file__, str(depth), str(width)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"depth": depth, "width": width, **json.loads(done.stdout)}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
        return
    by_depth = [in_fresh_process(depth, WIDTH) for depth in DEPTHS]
    by_width = [in_fresh_process(DEPTH, width) for width in WIDTHS]
    for row in (*by_depth, *by_width):
        row["time_over_step"] = row["diagnose: seconds"] / row["step: seconds"]
        row["memory_over_step"] = row["diagnose: peak MiB"] / row["step: peak MiB"]
        print(
            f"  depth {row['depth']:3d} width {row['width']:5d}  diagnose {row['diagnose: seconds']:.3f} s, "
            f"{row['diagnose: peak MiB']:.0f} MiB  step {row['step: seconds']:.3f} s, {row['step: peak MiB']:.0f} MiB  "
            f"micro-batches {row['diagnose, micro_batch=64: peak MiB']:.0f} MiB  "
            f"four sites {row['diagnose, last four sites: peak MiB']:.0f} MiB"
        )
    content = {"what": f"diagnose and one training step on {BATCH} samples", "by_depth": by_depth, "by_width": by_width}
    print(f"written to {write('bench_large', content)}")


if __name__ == "__main__":
    main()
