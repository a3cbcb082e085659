"""The network that pitfalls 4 to 7 are shown on: a residual MLP on the digits, trained by DFA on the spot.

Seconds on one core, and trained once for all of them. The published figures are from CIFAR-10 and a network trained
far longer: what is shown here is the effect, and the two figures stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.lab.runs.assembly import Assembly
    from walkback.lab.zoo.datasets import Batch
    from walkback.protocol.records import Alignment

WIDTH, DEPTH, EPOCHS, SEED = 256, 4, 20, 0
Freezing = Literal["none", "blocks"]


@dataclass(frozen=True)
class SmallNetwork:
    """A trained network with its feedback, and the held-out batches."""

    run: Assembly
    batches: list[Batch]
    alignment: Alignment
    """What `walkback.diagnose` says of it."""
    accuracy: float


@cache
def small_network(freezing: Freezing = "none") -> SmallNetwork:
    """Train it, or give it again; `blocks` leaves the blocks at their random start."""
    from walkback.lab.runs import random_state
    from walkback.lab.runs.assembly import assemble, dataset_of
    from walkback.lab.runs.config import RunConfig
    from walkback.lab.runs.measure import accuracy_on, held_out, report_on
    from walkback.lab.runs.train import one_thread, train_epoch
    from walkback.lab.zoo.datasets import Batches

    config = RunConfig(
        method="dfa", architecture="resmlp", data="digits", seed=SEED, epochs=EPOCHS, schedule="constant",
        architecture_options={"width": WIDTH, "depth": DEPTH}, freezing=freezing,
    )  # fmt: skip
    with random_state.kept(), one_thread():
        dataset = dataset_of(config)
        run = assemble(config, dataset.spec)
        batches = Batches(dataset.train, config.batch_size, seed=SEED, shuffle=True)
        for epoch in range(1, EPOCHS + 1):
            train_epoch(config, run, batches, epoch)
        accuracy, kept = accuracy_on(run.model, dataset.test), held_out(dataset)
        report = report_on(config, run, kept, accuracy)
    assert report.alignment is not None
    return SmallNetwork(run, kept, report.alignment, accuracy.value)


def setup(network: SmallNetwork, what: str = "") -> str:
    """What was run, in a sentence."""
    samples = sum(len(targets) for _, targets in network.batches)
    return (
        f"A residual MLP (d = {WIDTH}, {DEPTH} blocks) on scikit-learn's digits, trained by DFA for {EPOCHS} epochs "
        f"with seed {SEED}{what}: {100 * network.accuracy:.1f} % accuracy; Γ on {samples} held-out samples. "
        "The published figures are from CIFAR-10 and another network; they are here to be compared, not met."
    )


def forward(network: SmallNetwork, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
    """h_0 … h_L and the logits, written out as an evaluation script would."""
    model = network.run.model
    hiddens = [model.stem(inputs)]
    for block in model.blocks:
        hiddens.append(block(hiddens[-1]))
    return hiddens, model.head(hiddens[-1])
