"""Where the time of a training run goes, and what would make it faster: python benchmarks/step.py [ROUNDS].

First the shares of one epoch of CIFAR-10's size, from the parts timed by themselves: making batches, forward and
backward, the optimizer, and once per epoch the test accuracy, the diagnostics and the checkpoint. Then ways that might
be faster, each against the loop as it is, in turns: they are taken where they pay, and stay out where they do not.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import nn

from ratios import interleaved, ratio, write
from walkback.lab.runs import checkpoint
from walkback.lab.runs.assembly import Assembly, assemble
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.measure import report_if_possible, right_answers
from walkback.lab.zoo import DataSpec, build_model
from walkback.lab.zoo.datasets import Batches, Split
from walkback.lab.zoo.datasets.splits import Preparation
from walkback.lab.zoo.modes import evaluating
from walkback.protocol.records import Score

DATA, BATCH, SEEDS = DataSpec((3, 32, 32), 10), 128, 3
TRAIN_STEPS, TEST_STEPS = 391, 50
"""Of an epoch of CIFAR-10: 50 000 samples in batches of 128, 10 000 in batches of 200."""


def timed(call: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of a call."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def images(samples: int) -> Split:
    g = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (samples, 32, 32, 3), generator=g, dtype=torch.uint8)
    preparation = Preparation(mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26), crop=4, flip=True)
    return Split(pixels, torch.randint(0, 10, (samples,), generator=g), preparation)


def shares(architecture: str, method: str, rounds: int) -> dict[str, Any]:
    """CPU seconds of each part of an epoch, and its share of the whole."""
    config = RunConfig(method=method, architecture=architecture, data="cifar10", seed=0, epochs=30)
    run, split = assemble(config, DATA), images(BATCH * 8)
    batches = Batches(split, BATCH, seed=0, augment=True, shuffle=True)
    inputs, targets = next(iter(batches.epoch(0)))
    held_out = [(inputs, targets)] * 10

    def optimizer_step() -> None:
        run.optimizer.step()

    run.method.accumulate(inputs, targets)
    parts = {
        "making batches": timed(lambda: list(batches.epoch(0)), rounds) / 8 * TRAIN_STEPS,
        "optimizer": timed(optimizer_step, rounds) * TRAIN_STEPS,
        "forward and backward": timed(lambda: run.method.accumulate(inputs, targets), rounds) * TRAIN_STEPS,
        "test accuracy": timed(lambda: _accuracy(run, inputs, targets), rounds) * TEST_STEPS * 200 / BATCH,
        "diagnostics": timed(lambda: _report(config, run, held_out), max(rounds // 4, 2)),
    }
    with tempfile.TemporaryDirectory() as folder:
        parts["checkpoint"] = timed(lambda: checkpoint.save(Path(folder), config, 1, run), max(rounds // 4, 2))
    whole = sum(parts.values())
    return {"cpu_seconds": parts, "share": {name: seconds / whole for name, seconds in parts.items()}}


def _accuracy(run: Assembly, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    with evaluating(run.model), torch.inference_mode():
        right_answers(run.model(inputs), targets)


def _report(config: RunConfig, run: Assembly, held_out: list[Any]) -> None:
    report = report_if_possible(config, run, held_out, Score(value=0.5, samples=100), null_draws=0)
    assert not isinstance(report, str), report


def plain_step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def contender(architecture: str, change: str = "") -> Callable[[], None]:
    """One BP step of a network of the zoo, with one thing changed."""
    torch.manual_seed(0)
    model: Any = build_model(architecture, DATA)
    inputs, targets = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    if change == "channels-first":  # it is built channels-last
        model = model.to(memory_format=torch.contiguous_format)
    kinds = {"foreach": {"foreach": True}, "one by one": {"foreach": False}}
    optimizer = torch.optim.AdamW(model.parameters(), **kinds.get(change, {"fused": True}))
    called = torch.compile(model) if change == "compiled" else model
    return lambda: plain_step(called, optimizer, inputs, targets)


def seeds_apart() -> Callable[[], None]:
    steps = [contender("resmlp") for _ in range(SEEDS)]
    return lambda: [step() for step in steps] and None


def seeds_stacked() -> Callable[[], None]:
    """Three seeds as one network whose weights have a leading axis, by torch.func."""
    models = [build_model("resmlp", DATA) for _ in range(SEEDS)]
    base = build_model("resmlp", DATA).to("meta")
    parameters, buffers = torch.func.stack_module_state(models)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(parameters.values(), fused=True)
    inputs, targets = torch.randn(SEEDS, BATCH, 3, 32, 32), torch.randint(0, 10, (SEEDS, BATCH))

    def loss(own: Any, kept: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(torch.func.functional_call(base, (own, kept), (x,)), y)

    together = torch.func.vmap(loss)

    def step() -> None:
        together(parameters, buffers, inputs, targets).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


PAIRS: dict[str, tuple[Callable[[], Callable[[], None]], Callable[[], Callable[[], None]]]] = {
    "resmlp: AdamW fused over foreach": (lambda: contender("resmlp"), lambda: contender("resmlp", "foreach")),
    "resmlp: AdamW fused over one by one": (lambda: contender("resmlp"), lambda: contender("resmlp", "one by one")),
    "small_cnn: channels-last over channels-first": (
        lambda: contender("small_cnn"), lambda: contender("small_cnn", "channels-first"),
    ),
    "resmlp: compiled over as it is": (lambda: contender("resmlp", "compiled"), lambda: contender("resmlp")),
    "small_cnn: compiled over as it is": (lambda: contender("small_cnn", "compiled"), lambda: contender("small_cnn")),
    "resmlp: three seeds stacked over one after the other": (seeds_stacked, seeds_apart),
}  # fmt: skip


def compare(rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (new, old) in PAIRS.items():
        try:
            seconds = interleaved({"new": new(), "old": old()}, rounds)
            found[name] = ratio(seconds, "new", "old")
            print(f"  {name:56s} {found[name]['ratio']:.3f}", flush=True)
        except Exception as error:  # what cannot run here is told, and the rest goes on
            found[name] = {"not_run": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
            print(f"  {name:56s} not run: {found[name]['not_run']}", flush=True)
    return found


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    profile = {}
    for architecture, method in (("resmlp", "bp"), ("resmlp", "dfa"), ("small_cnn", "bp"), ("vit_mini", "bp")):
        name = f"{architecture}, {method}"
        profile[name] = shares(architecture, method, max(rounds // (1 if architecture == "resmlp" else 5), 3))
        listed = ", ".join(f"{part} {100 * share:.1f} %" for part, share in profile[name]["share"].items())
        print(f"  {name}: {listed}", flush=True)
    found = compare(rounds)
    content = {"what": "shares of an epoch, and ways to make a step faster", "profile": profile, "ratios": found}
    print(f"written to {write('bench_step', content)}")


if __name__ == "__main__":
    main()
