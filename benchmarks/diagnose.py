"""`walkback.diagnose` against a bare forward and backward pass on the same batches, as a ratio in one run."""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F

import walkback
from ratios import interleaved, ratio, write
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo.contract import DataSpec

CIFAR = DataSpec((3, 32, 32), 10)
NETWORKS = {"resmlp d=256, 4 blocks": ("resmlp", 0.75), "vit_mini d=128, 4 blocks": ("vit_mini", 0.88)}


def compare(architecture: str, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    model = ARCHITECTURES.load(architecture)(CIFAR)
    batches = [(torch.randn(128, *CIFAR.input_shape), torch.randint(0, 10, (128,))) for _ in range(10)]

    def bare() -> None:
        for inputs, targets in batches:
            model.zero_grad(set_to_none=True)
            F.cross_entropy(model(inputs), targets).backward()

    seconds = interleaved({"bare": bare, "diagnose": lambda: walkback.diagnose(model, batches)}, rounds)
    return ratio(seconds, "diagnose", "bare")


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    figures: dict[str, object] = {}
    print("diagnose over bare forward + loss.backward(), 10 batches of 128, one thread")
    for name, (architecture, limit) in NETWORKS.items():
        measured = compare(architecture, rounds)
        figures[name] = measured | {"limit": limit}
        quartiles = f"{measured['lower_quartile']:.3f} … {measured['upper_quartile']:.3f}"
        print(f"  {name:28s} {measured['ratio']:.3f}  (quartiles {quartiles}; limit {limit})")
    print(f"written to {write('bench_diagnose', {'what': 'diagnose / bare forward+backward', 'ratios': figures})}")


if __name__ == "__main__":
    main()
