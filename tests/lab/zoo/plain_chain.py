"""A small network of tanh blocks, and the same in plain NumPy: its pass, the error that comes back, and the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from plain_layers import plain
from torch import Tensor, nn
from zoo_networks import DATA, gradients

from walkback.lab.zoo import Block, BlockModel
from walkback.lab.zoo.contract import SkiplessBlock

WIDTH = 6
Matrices = Mapping[str, np.ndarray]


class TanhBlock(Block):
    """h + tanh(W h + b)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def branch(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.linear(hidden))


class PlainTanhBlock(SkiplessBlock, TanhBlock):
    """tanh(W h + b) alone."""


NAMES = ("stem.1", "blocks.0.linear", "blocks.1.linear", "head")
"""The layers, in order; the first block has no skip, the second has one."""


def tanh_network(seed: int = 0) -> BlockModel:
    torch.manual_seed(seed)
    stem = nn.Sequential(nn.Flatten(), nn.Linear(DATA.features, WIDTH))
    return BlockModel(stem, [PlainTanhBlock(), TanhBlock()], nn.Linear(WIDTH, DATA.classes), DATA).double()


def weights_of(model: BlockModel) -> dict[str, np.ndarray]:
    return {name: plain(model.get_submodule(name).weight).copy() for name in NAMES}


class Pass:
    """One pass over a batch: what every layer read, what tanh gave, and e."""

    def __init__(self, model: BlockModel, inputs: Tensor, targets: Tensor) -> None:
        weights = weights_of(model)
        biases = {name: plain(model.get_submodule(name).bias) for name in NAMES}
        self.inputs = plain(inputs).reshape(len(inputs), -1)
        self.hiddens = [self.inputs @ weights["stem.1"].T + biases["stem.1"]]
        self.bent: list[np.ndarray] = []
        for number, name in enumerate(NAMES[1:3]):
            self.bent.append(np.tanh(self.hiddens[-1] @ weights[name].T + biases[name]))
            self.hiddens.append(self.bent[-1] + (self.hiddens[-1] if number else 0))
        logits = self.hiddens[-1] @ weights["head"].T + biases["head"]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.target = np.eye(DATA.classes)[targets.numpy()]
        self.error = odds / odds.sum(axis=1, keepdims=True) - self.target

    def chain(self, feedback: Matrices) -> list[np.ndarray]:
        """a_0, a_1, a_2: e carried back through these matrices, each (out, in)."""
        last = self.error @ feedback["head"]
        middle = last + (last * (1 - self.bent[1] ** 2)) @ feedback["blocks.1.linear"]
        return [(middle * (1 - self.bent[0] ** 2)) @ feedback["blocks.0.linear"], middle, last]

    def update(self, credits: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The mean over samples of what each weight should move against, one sum at a time."""
        bent = [credits[1] * (1 - self.bent[0] ** 2), credits[2] * (1 - self.bent[1] ** 2)]
        outs, reads = [credits[0], *bent, self.error], [self.inputs, *self.hiddens]
        found = {}
        for name, out, read in zip(NAMES, outs, reads, strict=True):
            total = np.zeros((out.shape[1], read.shape[1]))
            for one_out, one_read in zip(out, read, strict=True):
                total += np.outer(one_out, one_read)
            found[name] = total / len(out)
        return found


def weight_gradients(model: BlockModel) -> dict[str, np.ndarray]:
    """What a method left in `.grad` of the weights."""
    found = gradients(model)
    return {name: plain(found[f"{name}.weight"]) for name in NAMES}


def agree(one: Matrices, other: Matrices, tolerance: float = 1e-10) -> bool:
    """Whether two sets of matrices are the same but for rounding."""
    return all(np.allclose(one[name], other[name], rtol=tolerance, atol=tolerance) for name in NAMES)
