"""A linear probe per site: how much of the answer a linear readout finds in h_l."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.lab.runs.measure import EVALUATION_BATCH
from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.datasets import Split, evaluation_batches
from walkback.lab.zoo.modes import evaluating

PROBE_SAMPLES = 10_000
"""The first samples of the training split, without augmentation."""
RIDGE = 1e-2
"""Of standardised features, whose mean square is 1."""
POOLED_SIDE = 2


def features(site: Tensor) -> Tensor:
    """One fp64 vector per sample: (B, d) as is, (B, T, d) the first token and the mean token side by side,
    (B, C, H, W) averaged to 2 × 2."""
    wide = site.double()
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
    subset = train.take(min(PROBE_SAMPLES, len(train)))
    known, answers = _gather(model, subset)
    unknown, truth = _gather(model, test)
    targets = F.one_hot(answers, model.data.classes).double()
    pairs = zip(known, unknown, strict=True)
    return [_ridge_accuracy(seen, targets, unseen, truth) for seen, unseen in pairs]


def _gather(model: BlockModel, split: Split) -> tuple[list[Tensor], Tensor]:
    """The features (N, d) of every site over a split, and its labels."""
    with evaluating(model), torch.no_grad():
        batches = evaluation_batches(split, EVALUATION_BATCH)
        collected = [[features(site) for site in sites_of(model, inputs)] for inputs, _ in batches]
    return [_stacked(site) for site in zip(*collected, strict=True)], split.labels


def _stacked(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat(list(parts))


def _ridge_accuracy(seen: Tensor, targets: Tensor, unseen: Tensor, truth: Tensor) -> float | None:
    if not (seen.isfinite().all() and unseen.isfinite().all()):
        return None
    mean, deviation = seen.mean(dim=0), seen.std(dim=0)
    scale = torch.where(deviation > 0, deviation, 1.0)
    standard, centre = (seen - mean) / scale, targets.mean(dim=0)
    gram = standard.T @ standard / len(seen) + RIDGE * torch.eye(seen.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(gram, standard.T @ (targets - centre) / len(seen))
    answers = ((unseen - mean) / scale @ weights + centre).argmax(dim=1)
    return float((answers == truth).double().mean())
