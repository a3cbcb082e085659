"""The network that pitfalls 4 to 7 are shown on: a residual MLP on made-up clusters, trained by DFA on the spot.

Seconds on one core, and trained once for all of them. The published figures are from CIFAR-10 and a network trained
far longer: what is shown here is the effect, and the two figures stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from walkback.pitfalls.residual_mlp import Batch, DirectFeedback, ResidualMLP
    from walkback.protocol.records import Alignment

WIDTH, DEPTH, EPOCHS, SEED = 256, 4, 20, 0
TRAINING, HELD_OUT = 1280, 512
Freezing = Literal["none", "blocks"]


@dataclass(frozen=True)
class SmallNetwork:
    """A trained network with its feedback, and the held-out batches."""

    model: ResidualMLP
    feedback: DirectFeedback
    batches: list[Batch]
    alignment: Alignment
    """What `walkback.diagnose` says of it."""
    accuracy: float


@cache
def small_network(freezing: Freezing = "none") -> SmallNetwork:
    """Train it, or give it again; `blocks` leaves the blocks at their random start."""
    import torch

    import walkback
    from walkback.pitfalls.residual_mlp import (
        BATCH,
        DirectFeedback,
        ResidualMLP,
        batches,
        clusters,
        right_answers,
        seeded,
        train,
    )

    with seeded(SEED):
        (inputs, targets), (held, labels) = clusters(TRAINING, HELD_OUT)
        model = ResidualMLP(WIDTH, DEPTH)
        model.blocks.requires_grad_(freezing == "none")
        feedback = DirectFeedback(DEPTH + 1, WIDTH, torch.Generator().manual_seed(SEED))
        train(model, feedback, inputs, targets, EPOCHS)
        held_out = batches(held, labels, BATCH)
        report = walkback.diagnose(model, held_out, blocks=list(model.blocks), credit=feedback)
        accuracy = float(right_answers(model, held, labels).double().mean())
    assert report.alignment is not None
    return SmallNetwork(model, feedback, held_out, report.alignment, accuracy)


def setup(network: SmallNetwork, what: str = "") -> str:
    """What was run, in a sentence."""
    return (
        f"A residual MLP (d = {WIDTH}, {DEPTH} blocks) on {TRAINING} made-up samples of ten classes, three clusters "
        f"each, trained by DFA for {EPOCHS} epochs with seed {SEED}{what}: {100 * network.accuracy:.1f} % accuracy; Γ "
        f"on {HELD_OUT} held-out samples. The published figures are from CIFAR-10 and another network; they are here "
        "to be compared, not met."
    )


def deep_draws(network: SmallNetwork, count: int) -> list[Tensor]:
    """cos(a_l, g_l), (sites, samples), under fresh feedback at the deep sites: h_0 keeps what its stem followed."""
    import torch
    import torch.nn.functional as F

    from walkback.pitfalls.residual_mlp import output_error
    from walkback.protocol import numerics

    inputs, targets = (torch.cat(parts) for parts in zip(*network.batches, strict=True))
    hiddens, logits = network.model.sites(inputs)
    gradients = torch.autograd.grad(F.cross_entropy(logits, targets, reduction="sum"), hiddens)
    error, generator = output_error(logits, targets), torch.Generator().manual_seed(SEED + 1)
    trained, *_ = network.feedback.matrices
    drawn = [[trained, *network.feedback.redraw(generator).matrices[1:]] for _ in range(count)]
    return [
        torch.stack([numerics.cosines(error @ b, g) for b, g in zip(matrices, gradients, strict=True)])
        for matrices in drawn
    ]
