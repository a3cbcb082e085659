"""One training step of each method against backpropagation, as ratios in one run: python benchmarks/train.py [ROUNDS].

Every contender trains the same ResMLP (d = 256, four blocks) on the same prepared batches of CIFAR-10's shape, of 128
unless the row says otherwise, with fused AdamW and one thread. The two sides of a ratio take turns, and each round
gives one ratio; the median over rounds counts, so that a busy machine slows both sides alike.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import nn

from multiplications import Multiplications
from ratios import interleaved, ratio, write
from walkback.lab.registry import METHODS
from walkback.lab.runs.assembly import assemble
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.train import train_epoch
from walkback.lab.zoo import BlockModel, DataSpec, build_method, build_model, defined_on

DATA, BATCH, STEPS = DataSpec((3, 32, 32), 10), 128, 2
OTHER_BATCHES = (16, 256, 512)
"""What direct credit saves grows with the batch; what it adds, calls and passes over weights, hardly does."""
TARGETS = {"bp": 1.05, "dfa": 1.0, "dfa, batch 16": 1.05}
SOURCE_STATE_BRIDGE: dict[str, object] = {"context": "error", "target": "normalised", "predictor_layers": 3}
WITH_OPTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "dfa per_sample": ("dfa", {"credit_norm": "per_sample"}),
    "state_bridge of its source": ("state_bridge", SOURCE_STATE_BRIDGE),
    "credit_bridge": ("credit_bridge", {"warm_up": 0.0}),
}
"""Rows that are not a method as it is; a warm-up would be DFA's step."""
Contender = Callable[[], object]


def zoo() -> dict[str, tuple[str, dict[str, object]]]:
    """What is timed: every method that is defined on this network, and what else it is asked to be."""
    plain: dict[str, tuple[str, dict[str, object]]] = {
        name: (name, {}) for name in METHODS.own if not defined_on(name)["resmlp"]
    }
    return plain | WITH_OPTIONS


class Prepared:
    """The same few batches in every epoch, so that no time goes into making them."""

    def __init__(self, batch: int = BATCH) -> None:
        generator = torch.Generator().manual_seed(0)
        self.batches = [
            (
                torch.randn(batch, *DATA.input_shape, generator=generator),
                torch.randint(DATA.classes, (batch,), generator=generator),
            )
            for _ in range(STEPS)
        ]

    def __len__(self) -> int:
        return STEPS

    def epoch(self, number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return self.batches


def by_hand(batches: Prepared) -> Contender:
    """The loop that anyone would write."""
    torch.manual_seed(0)
    model = build_model("resmlp", DATA)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)

    def steps() -> None:
        for inputs, targets in batches.batches:
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def by_walkback(method: str, options: dict[str, object], batches: Prepared) -> Contender:
    """The project's own loop."""
    config = RunConfig(
        method=method, architecture="resmlp", data="cifar10", seed=0, epochs=10_000, method_options=options
    )
    run = assemble(config, DATA)
    return lambda: train_epoch(config, run, batches, 1)


def by_biotorch(mode: str, batches: Prepared) -> Contender:
    """The same network converted by biotorch, in a loop written by hand."""
    from biotorch.module.biomodule import BioModule

    torch.manual_seed(0)
    plain = build_model("resmlp", DATA)
    network = nn.Sequential(plain.stem, *plain.blocks, plain.head)
    model = BioModule(network, mode=mode, output_dim=DATA.classes)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01, fused=True)

    def steps() -> None:
        for inputs, targets in batches.batches:
            loss = F.cross_entropy(model(inputs, targets, F.cross_entropy), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def install_biotorch(folder: str) -> str:
    """Make biotorch importable from a folder of its own; why it is not, where it is not."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "biotorch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"could not be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}"
    sys.path.insert(0, folder)
    return ""


def with_biotorch(contenders: dict[str, Contender], batches: Prepared, folder: str) -> dict[str, str]:
    """Add biotorch's contenders; what cannot run is told, and why."""
    problem = install_biotorch(folder)
    told = {}
    for mode in ("fa", "dfa"):
        name = f"biotorch {mode}"
        try:
            if problem:
                raise RuntimeError(problem)
            # Converting a network prints what it did, into the middle of our table.
            with contextlib.redirect_stdout(io.StringIO()):
                steps = by_biotorch(mode, batches)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                steps()
            contenders[name] = steps
            told[name] = "runs without torchvision" + (f"; it warns: {caught[0].message}" if caught else "")
        except Exception as error:
            told[name] = f"cannot run here: {type(error).__name__}: {error}"
    return told


def products(model: BlockModel, *, direct: bool) -> int:
    """Multiplications in the matrix products of one sample's step, by counting.

    A layer costs one product forward, one for its weight's gradient, and one for its input's where something
    below needs it. With direct credit nothing below a module needs it: a LayerNorm's gradients can be had from
    those of the weight that reads it.
    """
    stem, head = (_sizes(part) for part in (model.stem, model.head))
    total = 2 * sum(stem) + (2 if direct else 3) * sum(head)
    for block in model.blocks:
        first, *rest = _sizes(block)
        total += 3 * sum(rest) + (2 if direct else 3) * first
    if direct:
        total += sum(DATA.classes * shape[0] for shape in model.site_shapes)
    return total


def multiplied(method: str, options: dict[str, object] | None = None) -> int:
    """What one step of a batch multiplies as it runs."""
    inputs, targets = Prepared().batches[0]
    rule = build_method(method, build_model("resmlp", DATA), **options or {})
    with Multiplications() as counted:
        for _ in range(rule.phases):
            rule.accumulate(inputs, targets)
            rule.after_step()
    return counted.count


def _sizes(module: nn.Module) -> list[int]:
    return [layer.weight.numel() for layer in module.modules() if isinstance(layer, nn.Linear)]


def compare(contenders: dict[str, Contender], name: str, reference: str, rounds: int) -> dict[str, object]:
    """The two in turns, two steps each: neighbours in time share the machine's mood better than a whole round."""
    seconds = interleaved({name: contenders[name], reference: contenders[reference]}, rounds)
    milliseconds = 1000 * statistics.median(seconds[name]) / STEPS
    target = TARGETS.get(name, TARGETS.get(name.split(",")[0]))
    about = {"name": name, "against": reference, "target": target, "milliseconds": milliseconds}
    return about | ratio(seconds, name, reference)


def show(rows: list[dict[str, object]], counted: dict[str, float]) -> None:
    print(f"{'one step of':<28}{'against':<15}{'ratio':>7}   {'quartiles':<16}{'CPU ms':>8}   target")
    for entry in rows:
        target = f"≤ {entry['target']}" if entry["target"] else ""
        if "products" in entry:
            target = f"{target or '':<9}products {entry['products']:.3f}"
        if entry["name"] == "dfa":
            target += "; products, counted: " + ", ".join(f"{ratio:.3f} {how}" for how, ratio in counted.items())
        print(
            f"{entry['name']:<28}{entry['against']:<15}{entry['ratio']:>7.3f}   {entry['lower_quartile']:.3f} to "
            f"{entry['upper_quartile']:.3f}  {entry['milliseconds']:>8.2f}   {target}"
        )


def counted_products() -> dict[str, float]:
    """DFA's over backpropagation's: the floor of a step that multiplies e B out, and what the steps here multiply."""
    model = build_model("resmlp", DATA)
    return {
        "the floor of whole credits e B": products(model, direct=True) / products(model, direct=False),
        "by their factors, as here": multiplied("dfa") / multiplied("bp"),
    }


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    batches = Prepared()
    contenders = {"by hand": by_hand(batches)}
    timed = zoo()
    contenders |= {name: by_walkback(method, options, batches) for name, (method, options) in timed.items()}
    with tempfile.TemporaryDirectory() as folder:
        notes = with_biotorch(contenders, batches, folder)
        pairs = [("bp", "by hand"), *((name, "bp") for name in contenders if name not in ("by hand", "bp"))]
        for size in OTHER_BATCHES:
            others = Prepared(size)
            names = {method: f"{method}, batch {size}" for method in ("dfa", "bp")}
            contenders |= {name: by_walkback(method, {}, others) for method, name in names.items()}
            pairs.append((names["dfa"], names["bp"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [compare(contenders, name, reference, rounds) for name, reference in pairs]
    for row in rows:
        if row["name"] in timed and row["against"] == "bp":
            row["products"] = multiplied(*timed[str(row["name"])]) / multiplied("bp")
    counted = counted_products()
    show(rows, counted)
    for name, words in notes.items():
        print(f"{name}: {words}")
    print(f"written to {write('bench_train', {'rows': rows, 'counted': counted, 'notes': notes})}")


if __name__ == "__main__":
    main()
