"""A linear probe per site: how much of the answer a linear readout finds in h_l."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.lab.runs.measure import EVALUATION_BATCH
from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.datasets import Split, evaluation_batches
from walkback.lab.zoo.modes import evaluating

PROBE_SAMPLES = 10_000
"""The first answers of the training split, without augmentation: that many samples, or fewer where each has several."""
RIDGE = 1e-2
"""Of standardised features, whose mean square is 1."""
POOLED_SIDE = 2


def features(site: Tensor, answers: int = 1) -> Tensor:
    """One fp64 vector per answer: (B, d) as is, (B, T, d) the first token and the mean token side by side,
    (B, C, H, W) averaged to 2 × 2; where every token has an answer, (B, T, d) is each token's own state."""
    wide = site.double()
    if answers > 1:
        return wide.flatten(0, 1)
    if wide.ndim == 3:
        return torch.cat([wide[:, 0], wide.mean(dim=1)], dim=1)
    if wide.ndim == 4:
        return F.adaptive_avg_pool2d(wide, POOLED_SIDE).flatten(1)
    return wide


def sites_of(model: BlockModel, inputs: Tensor) -> Iterator[Tensor]:
    """h_0 … h_L, one after the other."""
    hidden = model.stem(inputs)
    yield hidden
    for block in model.blocks:
        hidden = block(hidden)
        yield hidden


def probe_accuracies(model: BlockModel, train: Split, test: Split) -> list[float | None]:
    """Test accuracy of a ridge readout at each site; None where a feature is not finite.

    One-hot targets are regressed on features standardised over the training samples. In fp64 a stream that
    has grown by many orders of magnitude still keeps its digits.
    """
    subset = train.take(min(ceil(PROBE_SAMPLES / model.data.answers), len(train)))
    targets = F.one_hot(subset.labels.flatten(), model.data.classes).double()
    known = [torch.cat(parts) for parts in zip(*(states for states, _ in _sites(model, subset)), strict=True)]
    readouts = [_fitted(seen, targets) for seen in known]
    right, finite = [0] * len(readouts), [readout is not None for readout in readouts]
    # Batch after batch: of a text, all features of the test split would fill the memory.
    for states, truth in _sites(model, test):
        for site, (readout, unseen) in enumerate(zip(readouts, states, strict=True)):
            finite[site] = finite[site] and bool(unseen.isfinite().all())
            if readout is not None and finite[site]:
                right[site] += int((readout(unseen).argmax(dim=1) == truth).sum())
    return [count / test.labels.numel() if whole else None for count, whole in zip(right, finite, strict=True)]


def _sites(model: BlockModel, split: Split) -> Iterator[tuple[list[Tensor], Tensor]]:
    """The features of every site and the answers to them, batch after batch."""
    for inputs, targets in evaluation_batches(split, EVALUATION_BATCH):
        with evaluating(model), torch.no_grad():
            states = [features(site, model.data.answers) for site in sites_of(model, inputs)]
        yield states, targets.flatten()


def _fitted(seen: Tensor, targets: Tensor) -> Callable[[Tensor], Tensor] | None:
    """The ridge readout of features (N, d); None where one is not finite."""
    if not seen.isfinite().all():
        return None
    mean, deviation = seen.mean(dim=0), seen.std(dim=0)
    scale = torch.where(deviation > 0, deviation, 1.0)
    standard, centre = (seen - mean) / scale, targets.mean(dim=0)
    gram = standard.T @ standard / len(seen) + RIDGE * torch.eye(seen.shape[1], dtype=torch.float64, device=seen.device)
    weights = torch.linalg.solve(gram, standard.T @ (targets - centre) / len(seen))
    return lambda unseen: (unseen - mean) / scale @ weights + centre
