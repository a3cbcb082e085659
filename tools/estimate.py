"""How long do the runs of presets take? python tools/estimate.py PRESET… [--steps N]

Times some steps of one run of each kind (method, network, what is frozen) with one thread, beside whatever else the
machine does, and adds up what the grids lack. Written to results/estimate.json. Measuring at the end of epochs
and of runs, which is not in it, adds a tenth or so.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from walkback.lab.grids.grid import unique_runs
from walkback.lab.grids.presets import preset
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.pace import seconds_per_epoch
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.store import RunStore
from walkback.protocol.schema import write_whole


def kind_of(config: RunConfig) -> str:
    """What the time of a step depends on, as a run's name has it: not its seed, length, penalty or targets."""
    options = {name: value for name, value in config.method_options.items() if name != "penalty"}
    alike = config.changed(seed=0, epochs=0, targets="true", method_options=options, schedule="cosine")
    return alike.name.removesuffix("-s0-0ep")


def main() -> None:
    """Time, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    store, paces, rows = RunStore(), {}, []
    for name in arguments.presets:
        missing = [run for run in unique_runs(preset(name)) if not store.run(run).finished]
        hours = 0.0
        for run in missing:
            kind = kind_of(run)
            if kind not in paces:
                paces[kind] = seconds_per_epoch(run, arguments.steps)
                print(f"{paces[kind]:7.1f} s an epoch  {kind}", flush=True)
            hours += paces[kind] * run.epochs / 3600
        rows.append({"preset": name, "runs": len(missing), "core_hours": round(hours, 2)})
        print(f"{hours:7.1f} core-hours  {name}, {len(missing)} runs", flush=True)
    total = sum(row["core_hours"] for row in rows)
    print(f"{total:7.1f} core-hours in all")
    result: dict[str, Any] = {
        "command": f"python tools/estimate.py {' '.join(arguments.presets)} --steps {arguments.steps}",
        "seconds_per_epoch": {kind: round(pace, 1) for kind, pace in paces.items()},
        "presets": rows,
        "core_hours": round(total, 1),
        **stamp(),
    }
    write_whole(Path("results/estimate.json"), json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
