"""Functional tests of depth: a block removed, a block made random again, and a linear probe per site.

None of them rests on the diagnostics, so they can agree or disagree with (d). The model is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from walkback.lab.runs.assembly import initial_model
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.linear_probe import PROBE_SAMPLES, probe_accuracies, sites_of
from walkback.lab.runs.measure import EVALUATION_BATCH, accuracy_on, right_answers
from walkback.lab.zoo import Block, BlockModel, Method
from walkback.lab.zoo.contract import SkiplessBlock
from walkback.lab.zoo.datasets import Dataset, Split, evaluation_batches
from walkback.lab.zoo.modes import evaluating

DRAWS = 5
NO_SKIP = "a block without a skip cannot be removed: nothing would be left of its input"


def depth_tests(config: RunConfig, method: Method, dataset: Dataset) -> dict[str, Any]:
    """The three tests on the whole test split: accuracies per block, per block and draw, and per site."""
    model = method.model
    skips = _have_skips(model, dataset.test)
    draws = [fresh_blocks(config, model, dataset, draw) for draw in range(DRAWS)]
    blocks = zip(model.blocks, *draws, strict=True)
    changes = [[partial(_without_branch, block), *fresh] for block, *fresh in blocks]
    if method.answers_by_head():
        accuracies = accuracies_with(model, changes, dataset.test)
    else:
        accuracies = accuracies_answered(method, changes, dataset.test)
    return {
        "blocks_removed": [row[0] if skip else None for row, skip in zip(accuracies, skips, strict=True)],
        "not_removed": "" if all(skips) else NO_SKIP,
        "blocks_rerandomised": [row[1:] for row in accuracies],
        "linear_probes": probe_accuracies(model, dataset.train, dataset.test),
    }


def fresh_blocks(config: RunConfig, model: BlockModel, dataset: Dataset, draw: int) -> list[Block]:
    """The blocks of a new network of the same architecture, from a seed of their own.

    Running statistics that a block keeps are made anew from the trained network's own states, as they would
    be for a block that had been left at its initial weights.
    """
    seed = derived_seed(config.seed, "rerandomised blocks") + draw
    device = next(model.parameters()).device
    blocks = list(initial_model(config, model.data, seed).to(device).blocks)
    if any(isinstance(module, _NormBase) for block in blocks for module in block.modules()):
        _settle_statistics(model, blocks, dataset.train.take(min(PROBE_SAMPLES, len(dataset.train))))
    for block in blocks:
        block.eval()
    return blocks


def _settle_statistics(model: BlockModel, blocks: Sequence[Block], split: Split) -> None:
    for module in (module for block in blocks for module in block.modules()):
        if isinstance(module, _NormBase):
            module.momentum = None  # The plain average over all batches.
            module.reset_running_stats()
    with evaluating(model), torch.no_grad():
        for inputs, _ in evaluation_batches(split, EVALUATION_BATCH):
            for block, read in zip(blocks, sites_of(model, inputs), strict=False):
                block.train()(read)


def _have_skips(model: BlockModel, split: Split) -> list[bool]:
    """Whether each block's output still depends on its input when its branch is zero."""
    with evaluating(model), torch.no_grad():
        sites = list(sites_of(model, next(evaluation_batches(split, 2))[0]))
        return [bool(_without_branch(block, read).any()) for block, read in zip(model.blocks, sites[:-1], strict=True)]


def _without_branch(block: Block, hidden: Tensor) -> Tensor:
    return block.join(hidden, torch.zeros_like(block.branch(hidden)))


Change = Callable[[Tensor], Tensor]
"""What stands in for a block."""


def accuracies_with(model: BlockModel, changes: Sequence[Sequence[Change]], split: Split) -> list[list[float]]:
    """Accuracy with each change in place of its block, (blocks, changes of that block), in one pass.

    The states before a block do not depend on what replaces it, so only what follows is computed again.
    """
    right = torch.zeros(len(changes), max(map(len, changes)), dtype=torch.int64, device=split.labels.device)
    with evaluating(model), torch.no_grad():
        for inputs, targets in evaluation_batches(split, EVALUATION_BATCH):
            # The last site is read by the head alone, so there is one site more than blocks.
            for index, (read, stand_ins) in enumerate(zip(sites_of(model, inputs), changes, strict=False)):
                for number, change in enumerate(stand_ins):
                    right[index, number] += right_answers(logits_from(model, index + 1, change(read)), targets)
    counts, answers = right.tolist(), split.labels.numel()
    return [[count / answers for count in row[: len(c)]] for row, c in zip(counts, changes, strict=True)]


class _StandIn(SkiplessBlock):
    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def branch(self, hidden: Tensor) -> Tensor:
        return self.change(hidden)


@contextmanager
def _replaced(model: BlockModel, index: int, change: Change) -> Iterator[None]:
    block = model.blocks[index]
    model.blocks[index] = _StandIn(change)
    try:
        yield
    finally:
        model.blocks[index] = block


def accuracies_answered(method: Method, changes: Sequence[Sequence[Change]], split: Split) -> list[list[float]]:
    """The same by a method's own `predict`, which is asked anew for each change: it may read every site."""
    found: list[list[float]] = []
    for index, stand_ins in enumerate(changes):
        found.append([])
        for change in stand_ins:
            with _replaced(method.model, index, change):
                found[-1].append(accuracy_on(method, split).value)
    return found


def logits_from(model: BlockModel, site: int, hidden: Tensor) -> Tensor:
    """The logits from h_l on."""
    for block in list(model.blocks)[site:]:
        hidden = block(hidden)
    return model.head(hidden)  # type: ignore[no-any-return]
