"""Measures one network on the CPU and on torch's `lazy` device, and prints the figures of both as JSON.

`lazy` computes on the CPU, but is another device to every operation, and has numbers. It is a prototype of torch's, so
it has a process of its own; what its `chunk` and `split` return is on no device, so these are made of slices here.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._lazy import ts_backend

import walkback

FIGURES = (
    "residual_norms", "bp_grad_norms", "site_stabilities", "drift_shares", "headline_acc", "error_size", "samples",
)  # fmt: skip


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + F.relu(self.linear(self.norm(hidden)))


def sliced(tensor: torch.Tensor, sizes: list[int], dim: int = 0) -> tuple[torch.Tensor, ...]:
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return tuple(tensor.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=True))


def chunked(tensor: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
    return sliced(tensor, [len(tensor) // count] * count)


def credit(hiddens: Any, logits: Any, targets: Any) -> list[torch.Tensor]:
    return [torch.ones_like(hidden) for hidden in hiddens]


def figures(report: Any) -> dict[str, Any]:
    return {name: value for name, value in report.to_dict().items() if name in FIGURES}


def measured(model: nn.Module, batches: list[Any], device: torch.device) -> dict[str, Any]:
    report = walkback.diagnose(model, batches, credit=credit, readouts=True)
    monitor = walkback.Monitor(model, batches, every=1)
    monitor.step()
    probed = figures(monitor.report)
    model.train()
    inputs, targets = (tensor.to(device) for tensor in batches[0])
    with monitor.watch_training():
        F.cross_entropy(model(inputs), targets).backward()
        monitor.step()
    assert report.alignment is not None
    return {
        "diagnose": figures(report),
        "states": [reading.state.value for reading in report.readings],
        "alignment": report.alignment.sites,
        "checked": report.reference_check.passed if report.reference_check else None,
        "device": report.provenance["device"],
        "monitor": probed,
        "training pass": figures(monitor.report),
    }


def refusal(measure: Any, model: nn.Module, batches: list[Any]) -> str:
    try:
        measure(model, batches)
    except walkback.errors.InputError as error:
        return str(error)
    return ""


def main() -> None:
    torch.set_num_threads(1)
    ts_backend.init()
    torch.split, torch.Tensor.chunk = sliced, chunked
    lazy = torch.device("lazy", 0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), Block(), Block(), nn.Linear(8, 3))
    batches = [(torch.randn(128, 6), torch.randint(3, (128,))) for _ in range(3)]
    found: dict[str, Any] = {"cpu": measured(copy.deepcopy(model), batches, torch.device("cpu"))}
    found["lazy"] = measured(copy.deepcopy(model).to(lazy), batches, lazy)
    model[3].to(lazy)
    found["spread"] = [refusal(measure, model, batches) for measure in (walkback.diagnose, walkback.Monitor)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
