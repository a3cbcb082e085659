"""How often does the protocol fire on a network that nobody has trained? python tools/untrained.py [NETWORKS] [--write]

Untrained ResMLPs (d = 256, four blocks) on the held-out batches of CIFAR-10, as runs of the seeds 0, 1, … begin, and
those of the audit's three seeds. The counts are of the former; C11 is about the latter. A run derives the seed of its
weights from its own, so the networks that `torch.manual_seed` itself gives for those three are measured beside them.
Each is measured once more with its readout scaled down until it prefers no class, to see whether its preferences are
what (c) sees. Printed; with --write also kept in results/untrained_resmlp_d256.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

import walkback
from walkback.lab.runs.assembly import dataset_of, initial_model
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.measure import held_out
from walkback.lab.runs.stamp import stamp
from walkback.lab.studies.base import firing
from walkback.lab.zoo import BlockModel, build_model
from walkback.lab.zoo.datasets import Batch
from walkback.protocol.schema import write_whole

AUDITED = (42, 123, 456)
QUIET = 0.01
"""What the readout is scaled by: the softmax is then close to uniform, and a cosine does not see the scale itself."""
TARGET = Path(__file__).parents[1] / "results" / "untrained_resmlp_d256.json"


def counts(rows: list[dict[str, Any]], suffix: str = "") -> dict[str, Any]:
    """How often each diagnostic fires, and where (c) lies."""
    fired, stabilities = f"fired{suffix}", [row[f"stability{suffix}"] for row in rows]
    return {
        fired: {letter: sum(letter in row[fired] for row in rows) for letter in "abc"},
        f"stability{suffix}": {
            "low": min(stabilities),
            "median": statistics.median(stabilities),
            "high": max(stabilities),
        },
    }


def measured(model: BlockModel, batches: list[Batch]) -> dict[str, Any]:
    """One network as it is, and with a readout that prefers no class."""
    report = walkback.diagnose(model, batches)
    readout = list(model.head.children())[-1]
    readout.load_state_dict({name: QUIET * value for name, value in readout.state_dict().items()})
    quiet = walkback.diagnose(model, batches)
    return {
        "fired": firing(report),
        "residual_norms": report.residual_norms,
        "bp_grad_norms": report.bp_grad_norms,
        "stability": report.cross_batch_stability,
        "drift_share": (report.drift_shares or ())[report.stability_layer or 0],
        "fired_with_quiet_head": firing(quiet),
        "stability_with_quiet_head": quiet.cross_batch_stability,
    }


def main() -> None:
    """Measure them all, and count what fires."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=int, nargs="?", default=100, metavar="NETWORKS")
    parser.add_argument("--write", action="store_true", help=f"put the numbers on record in {TARGET.name}")
    arguments = parser.parse_args()
    networks: int = arguments.networks
    if networks < 1:
        parser.error(f"NETWORKS is {networks}; expected 1 or more.")
    config = RunConfig(method="bp", architecture="resmlp", data="cifar10", seed=0, epochs=1)
    dataset = dataset_of(config)
    batches = held_out(dataset)
    rows = []
    for seed in dict.fromkeys((*range(networks), *AUDITED)):
        model = initial_model(config, dataset.spec, derived_seed(seed, "weights"))
        rows.append({"seed": seed} | measured(model, batches))
    by_torch = []
    for seed in AUDITED:
        torch.manual_seed(seed)
        by_torch.append({"seed": seed} | measured(build_model("resmlp", dataset.spec), batches))
    content = {
        "command": f"python tools/untrained.py {networks} --write",
        "networks": networks,
        **counts(rows[:networks]),
        **counts(rows[:networks], "_with_quiet_head"),
        "rows": rows,
        "by_torch_seed": by_torch,
        **stamp(),
    }
    print({name: value for name, value in content.items() if name.startswith(("networks", "fired", "stability"))})
    shown = ("seed", "fired", "stability", "stability_with_quiet_head")
    for name, some in (("runs", [row for row in rows if row["seed"] in AUDITED]), ("torch.manual_seed", by_torch)):
        print(name, [tuple(row[figure] for figure in shown) for row in some])
    if arguments.write:
        print("saved to", write_whole(TARGET, json.dumps(content, indent=1) + "\n"))


if __name__ == "__main__":
    main()
