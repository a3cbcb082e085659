"""The network that pitfalls are shown on, with its data and its training: plain torch, written out.

    h_0 = stem(x);  h_l = h_{l−1} + Linear₂(GELU(Linear₁(LayerNorm(h_{l−1}))));  logits = Linear(LayerNorm(h_L))

A credit rule trains it: module l follows a_l at what it writes. Direct feedback alignment has a_l = e B_l with
e = softmax(logits) − onehot(y).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.protocol.credit import CreditRule, Trace
from walkback.protocol.untouched import one_thread, random_states_kept

INPUTS, CLASSES, CENTRES = 64, 10, 30
WRITE_STD = 0.01
"""Of the layer that writes into the stream, so that the stream starts out flat."""
BATCH, RATE = 128, 1e-3

Batch = tuple[Tensor, Tensor]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """One torch thread and one seed, so that figures are the same each time; every random state is left as it was."""
    with random_states_kept(), one_thread():
        torch.manual_seed(seed)
        yield


def clusters(*counts: int) -> list[Batch]:
    """One set of samples for each count: inputs (N, 64) around random centres, three for each of ten classes.

    x = c_k + ε with c_k, ε ~ N(0, I), and y = k mod 10: no straight line tells the classes apart.
    """
    centres = torch.randn(CENTRES, INPUTS)
    which = [torch.randint(CENTRES, (count,)) for count in counts]
    return [(centres[k] + torch.randn(len(k), INPUTS), k % CLASSES) for k in which]


def batches(inputs: Tensor, targets: Tensor, n: int) -> list[Batch]:
    """What a loader with this batch size gives."""
    return [(inputs[start : start + n], targets[start : start + n]) for start in range(0, len(inputs), n)]


class Block(nn.Module):
    """h + Linear₂(GELU(Linear₁(LayerNorm(h)))), (B, d) → (B, d)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear1, self.linear2 = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.linear2.weight, std=WRITE_STD)
        nn.init.zeros_(self.linear2.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """The stream behind the block."""
        return hidden + self.linear2(F.gelu(self.linear1(self.norm(hidden))))  # type: ignore[no-any-return]


class ResidualMLP(nn.Module):
    """A residual MLP with a LayerNorm before its readout; weights are drawn from torch's global generator."""

    def __init__(self, width: int = 256, depth: int = 4) -> None:
        super().__init__()
        self.stem = nn.Linear(INPUTS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES))

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits, (B, 64) → (B, 10)."""
        return self.sites(inputs)[1]

    def sites(self, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
        """h_0 … h_L and the logits, as an evaluation script reads them."""
        hiddens = [self.stem(inputs)]
        for block in self.blocks:
            hiddens.append(block(hiddens[-1]))
        return hiddens, self.head(hiddens[-1])


class DirectFeedback:
    """a_l = e B_l with one B_l ~ N(0, 1/d) of shape (classes, d) for each site, drawn by a generator of its own."""

    independent_feedback = True

    def __init__(self, sites: int, width: int, generator: torch.Generator) -> None:
        self.matrices = [torch.randn(CLASSES, width, generator=generator) / width**0.5 for _ in range(sites)]

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L, each (B, d)."""
        return [trace.error @ matrix.to(trace.error.dtype) for matrix in self.matrices]

    def redraw(self, generator: torch.Generator) -> DirectFeedback:
        """The same rule with other matrices."""
        return DirectFeedback(len(self.matrices), self.matrices[0].shape[1], generator)


def output_error(logits: Tensor, targets: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y), (B, classes)."""
    return (logits.softmax(dim=1) - F.one_hot(targets, CLASSES)).detach()


def train(model: ResidualMLP, feedback: CreditRule, inputs: Tensor, targets: Tensor, epochs: int) -> None:
    """By AdamW on batches of 128, shuffled anew in every epoch; parameters that need no gradient stay."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
    for _ in range(epochs):
        order = torch.randperm(len(inputs))
        for x, y in batches(inputs[order], targets[order], BATCH):
            optimizer.zero_grad()
            objective(model, feedback, x, y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def objective(model: ResidualMLP, feedback: CreditRule, inputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over samples of Σ_l ⟨what module l writes, a_l⟩ + ℓ(head(h_L)); each module reads a detached state."""
    writes = [model.stem(inputs)]
    for block in model.blocks:
        writes.append(block(writes[-1].detach()))
    hiddens = [write.detach() for write in writes]
    logits = model.head(hiddens[-1])
    trace = Trace(inputs, hiddens, logits.detach(), targets, output_error(logits, targets))
    pulls = [(write * credit).sum() for write, credit in zip(writes, feedback.credits(trace), strict=True)]
    pulls.append(F.cross_entropy(logits, targets, reduction="sum"))
    return torch.stack(pulls).sum() / len(inputs)


def right_answers(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Which samples a network answers rightly, (N,) booleans."""
    with torch.no_grad():
        return model(inputs).argmax(dim=1) == targets  # type: ignore[no-any-return]
