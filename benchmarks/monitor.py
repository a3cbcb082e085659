"""What watching a run costs, beside cockpit and delve, as ratios to plain training in one run.

ResMLP d = 256 with 4 blocks, inputs and classes of CIFAR-10, batches of 128, SGD (the cheapest step, so the hardest
limits), one thread, CPU time. cockpit cannot take an affine LayerNorm; its rows are over plain training without one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import peers
import walkback
from ratios import interleaved, ratio, write
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo.contract import DataSpec
from walkback.watch.budget import Clock

CIFAR = DataSpec((3, 32, 32), 10)
STEPS = 10
"""Training steps of each variant in each round."""
PLAIN, PLAIN_SIMPLE = "plain training", "plain training, LayerNorm without weights"
AGAIN = "plain training again: what is noise"
BUDGET = "walkback, default budget of 2 %"
LIMITS = {
    BUDGET: 1.01,
    "walkback, norms in the training pass, every step": 1.05,
    "walkback, own probe of one batch, every 10 steps": 1.10,
}

Batches = list[tuple[torch.Tensor, torch.Tensor]]
Training = tuple[nn.Module, torch.optim.Optimizer, Callable[[], tuple[torch.Tensor, torch.Tensor]]]


def network(affine: bool = True) -> nn.Module:
    torch.manual_seed(0)
    model = ARCHITECTURES.load("resmlp")(CIFAR)
    if not affine:
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.LayerNorm):
                    setattr(module, name, nn.LayerNorm(child.normalized_shape, elementwise_affine=False))
    return model


def make_batches(number: int) -> Batches:
    g = torch.Generator().manual_seed(1)
    shape = (128, *CIFAR.input_shape)
    return [(torch.randn(shape, generator=g), torch.randint(0, 10, (128,), generator=g)) for _ in range(number)]


def trainer(batches: Batches, affine: bool = True) -> Training:
    model = network(affine)
    numbers = count()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    return model, optimizer, lambda: batches[next(numbers) % len(batches)]


def plain_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Callable[[], Any]) -> None:
    x, y = batch()
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


class OwnTime:
    """CPU time that passes only while one variant runs: its rounds take turns with the others'."""

    def __init__(self) -> None:
        self.before, self.since = 0.0, 0.0

    def __call__(self) -> float:
        return self.before + time.process_time() - self.since

    def pause(self) -> None:
        self.before = self()

    def resume(self) -> None:
        self.since = time.process_time()


def watched(
    training: Training, batches: Batches, trace: Path, read_training: bool = False, **settings: Any
) -> tuple[Callable[[], None], walkback.Monitor]:
    """A round of training with a monitor, and the monitor. Its hooks are on in its own rounds alone."""
    monitor = walkback.Monitor(training[0], batches, trace=trace, **settings)
    own = OwnTime()
    own.resume()
    monitor.clock = Clock(own)
    monitor.clock.start()
    own.pause()
    hooks = None
    if read_training:
        monitor.attach()
        hooks = monitor.training_pass
        hooks.detach()

    def round_of_steps() -> None:
        own.resume()
        if hooks is not None:
            hooks.attach()
        for _ in range(STEPS):
            plain_step(*training)
            monitor.step()
        if hooks is not None:
            hooks.detach()
        own.pause()

    return round_of_steps, monitor


def repeated(step: Callable[[], None]) -> Callable[[], None]:
    def round_of_steps() -> None:
        for _ in range(STEPS):
            step()

    return round_of_steps


def own_variants(batches: Batches, folder: Path) -> tuple[dict[str, Callable[[], None]], walkback.Monitor]:
    """Plain training and all monitors on one network: two copies of it already differ by where they lie in memory."""
    training = trainer(batches)
    variants = {
        PLAIN: repeated(partial(plain_step, *training)),
        AGAIN: repeated(partial(plain_step, *training)),
        PLAIN_SIMPLE: repeated(partial(plain_step, *trainer(batches, affine=False))),
    }
    budget, norms, probe = LIMITS
    variants[budget], in_budget = watched(training, batches, folder / "budget.jsonl")
    variants[norms], _ = watched(training, batches, folder / "norms.jsonl", read_training=True, every=1)
    variants[probe], _ = watched(training, batches, folder / "probe.jsonl", every=10, max_batches=1)
    return variants, in_budget


def peer_variants(batches: Batches, folder: str | None) -> tuple[dict[str, Callable[[], None]], dict[str, str]]:
    """The peers that run here, and why the others do not."""
    builders: dict[str, Callable[[], Callable[[], None]]] = {
        "cockpit, GradNorm only, every step": lambda: peers.cockpit_step(
            lambda: trainer(batches, affine=False), ("GradNorm",)
        ),
        "cockpit, its four cheap quantities, every step": lambda: peers.cockpit_step(
            lambda: trainer(batches, affine=False), peers.CHEAP
        ),
        "delve, layer saturation": lambda: peers.delve_step(lambda: trainer(batches), plain_step),
    }
    missing = peers.install(folder)
    variants, failed = {}, {}
    for name, build in builders.items():
        try:
            if missing:
                raise RuntimeError(missing)
            step = build()
            step()
            variants[name] = repeated(step)
        except Exception as error:  # whatever a peer does here, the table says so and goes on
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return variants, failed


def figures_of(seconds: Mapping[str, list[float]], name: str) -> dict[str, float]:
    reference = PLAIN_SIMPLE if name.startswith("cockpit") else PLAIN
    figures = ratio(seconds, name, reference)
    # A budget is spent in few rounds, so the median round does not show it.
    return figures | {"ratio_of_totals": sum(seconds[name]) / sum(seconds[reference])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--peers", metavar="FOLDER", help="where the peers are installed; default: a fresh folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    batches = make_batches(20)
    with tempfile.TemporaryDirectory() as folder:
        variants, in_budget = own_variants(batches, Path(folder))
        others, failed = peer_variants(batches, options.peers)
        seconds = interleaved(variants | others, options.rounds)
    rows: dict[str, Any] = {name: figures_of(seconds, name) for name in seconds if name != PLAIN}
    rows[BUDGET] |= {"share_by_its_own_clock": in_budget.overhead, "limit_by_its_own_clock": [0.018, 0.022]}
    for name, limit in LIMITS.items():
        rows[name] |= {"limit": limit}
    report(seconds, rows, failed)
    path = write("bench_monitor", {"what": "training step over plain", "ratios": rows, "not_run": failed})
    print(f"written to {path}")


def report(seconds: Mapping[str, list[float]], rows: Mapping[str, Any], failed: Mapping[str, str]) -> None:
    plain = sorted(seconds[PLAIN])[len(seconds[PLAIN]) // 2] / STEPS
    print(
        f"over plain training ({1000 * plain:.1f} ms a step), median over {len(seconds[PLAIN])} rounds of {STEPS} steps"
    )
    for name, row in rows.items():
        quartiles = f"quartiles {row['lower_quartile']:.3f} … {row['upper_quartile']:.3f}"
        limit = f"; limit {row['limit']}" if "limit" in row else ""
        print(f"  {name:52s} {row['ratio']:.3f}  of totals {row['ratio_of_totals']:.3f}  ({quartiles}{limit})")
    share = 100 * rows[BUDGET]["share_by_its_own_clock"]
    print(f"  the 2 % budget by the monitor's own clock: {share:.2f} % (limit: within a tenth of itself, 1.8 to 2.2 %)")
    for name, why in failed.items():
        print(f"  {name:52s} not run: {why}")


if __name__ == "__main__":
    main()
