"""Everything that is measured on a finished network: one pass each over the test split, nothing trained."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.lab.runs.correctness import packed
from walkback.lab.runs.linear_probe import RIDGE, features, sites_of
from walkback.lab.validity.conditions.base import Made
from walkback.lab.validity.provenance import parts_of
from walkback.lab.validity.record import Answers, NumbersByName, Readouts
from walkback.lab.validity.training import chunks
from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.datasets.drawn import Task, hashes

PUBLISHED_BATCH = 128
"""Gradients are told for a loss averaged over so many samples, as in every report."""


def answers_of(correct: Tensor) -> Answers:
    """The accuracy and its bits, from one boolean per test sample, (N,)."""
    return Answers(accuracy=float(correct.double().mean()), correct=packed(correct.numpy()))


@torch.no_grad()
def site_features(model: BlockModel, inputs: Tensor) -> list[Tensor]:
    """The features (N, d) of every site, in fp64."""
    parts = [[features(site) for site in sites_of(model, chunk)] for chunk in chunks(inputs)]
    return [torch.cat(list(site)) for site in zip(*parts, strict=True)]


def readouts_of(model: BlockModel, task: Task) -> Readouts:
    """A ridge readout per site, fitted on the training split, with the lab's fixed ridge."""
    known, unseen = site_features(model, task.train_inputs), site_features(model, task.test_inputs)
    bits = [
        _right(seen, task.train_labels, new, task.test_labels, task.classes, RIDGE)
        for seen, new in zip(known, unseen, strict=True)
    ]
    return _readouts(bits, f"ridge {RIDGE:g} of standardised features, fitted on the training split")


def _readouts(bits: list[Tensor | None], how: str) -> Readouts:
    return Readouts(
        accuracies=tuple(None if right is None else float(right.double().mean()) for right in bits),
        correct=tuple(None if right is None else packed(right.numpy()) for right in bits),
        how=how,
    )


def _right(seen: Tensor, labels: Tensor, new: Tensor, truth: Tensor, classes: int, ridge: float) -> Tensor | None:
    """Which new samples a ridge regression on one-hot labels gets right, (N,); None where a feature is not finite."""
    if not (seen.isfinite().all() and new.isfinite().all()):
        return None
    mean, deviation = seen.mean(dim=0), seen.std(dim=0)
    scale = torch.where(deviation > 0, deviation, 1.0)
    standard, targets = (seen - mean) / scale, F.one_hot(labels, classes).double()
    centre = targets.mean(dim=0)
    gram = standard.T @ standard / len(seen) + ridge * torch.eye(seen.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(gram, standard.T @ (targets - centre) / len(seen))
    answers: Tensor = ((new - mean) / scale @ weights + centre).argmax(dim=1)
    return answers == truth


@torch.no_grad()
def site_norms(model: BlockModel, inputs: Tensor) -> NumbersByName:
    """Medians over samples of ‖h_l‖ per site: of the whole site and, of tokens, of the first and of their mean norm."""
    found: dict[str, list[list[Tensor]]] = {}
    for chunk in chunks(inputs):
        for number, site in enumerate(sites_of(model, chunk)):
            for name, norm in _norms(site.double()).items():
                places = found.setdefault(name, [])
                while len(places) <= number:
                    places.append([])
                places[number].append(norm)
    return {name: tuple(float(torch.cat(part).median()) for part in places) for name, places in found.items()}


def _norms(site: Tensor) -> dict[str, Tensor]:
    norms = {"flat": site.flatten(1).norm(dim=1)}
    if site.ndim == 3:
        norms |= {"first_token": site[:, 0].norm(dim=1), "mean_token": site.norm(dim=2).mean(dim=1)}
    return norms


def gradient_sizes(model: BlockModel, inputs: Tensor, labels: Tensor) -> NumbersByName:
    """Medians over samples, from autograd as the network has it: ‖g_l‖, ‖∂ℓ/∂h_l‖ / ‖∂ℓ/∂logits‖, and ‖∂ℓ/∂logits‖."""
    norms: list[list[Tensor]] = []
    errors: list[Tensor] = []
    for chunk, targets in zip(chunks(inputs), chunks(labels), strict=True):
        for number, size in enumerate(_gradient_norms(model, chunk, targets, errors)):
            while len(norms) <= number:
                norms.append([])
            norms[number].append(size)
    error = torch.cat(errors)
    sites = [torch.cat(part) for part in norms]
    ratios = [torch.where(error > 0, site / error, torch.nan) for site in sites]
    return {
        "norms": tuple(float(site.median()) / PUBLISHED_BATCH for site in sites),
        "per_error": tuple(float(ratio.nanmedian()) for ratio in ratios),
        "error": (float(error.median()),),
    }


def _gradient_norms(model: BlockModel, inputs: Tensor, labels: Tensor, errors: list[Tensor]) -> Iterator[Tensor]:
    with torch.enable_grad():
        sites = [site.detach().requires_grad_() for site in [model.stem(inputs)]]
        for block in model.blocks:
            sites.append(block(sites[-1]))
        logits = model.head(sites[-1])
        loss = F.cross_entropy(logits.double(), labels, reduction="sum")
    *grads, error = torch.autograd.grad(loss, [*sites, logits])
    errors.append(error.double().norm(dim=1))
    yield from (grad.double().flatten(1).norm(dim=1) for grad in grads)


@torch.no_grad()
def movement_of(made: Made) -> dict[str, tuple[float, ...]]:
    """‖W − W_0‖/‖W_0‖ of stem, blocks and head; of the blocks; of every tensor in the blocks."""
    parts = []
    for new, old in zip(parts_of(made.run.model), parts_of(made.start), strict=True):
        pairs = list(zip(new.parameters(), old.parameters(), strict=True))
        moved = sum(float((a.double() - b.double()).pow(2).sum()) for a, b in pairs) ** 0.5
        size = sum(float(b.double().pow(2).sum()) for _, b in pairs) ** 0.5
        parts.append(moved / size if size else float(moved > 0))
    tensors = [
        float((a.double() - b.double()).norm() / b.double().norm()) if float(b.norm()) else float((a - b).norm())
        for a, b in zip(made.run.model.blocks.parameters(), made.start.blocks.parameters(), strict=True)
    ]
    return {"parts": tuple(parts), "blocks": tuple(parts[1:-1]), "tensors": tuple(tensors)}


def overlap_of(task: Task) -> dict[str, int]:
    """How many test samples are in the training split, by hash, and how many of those have the same label there."""
    train = hashes(task.train_inputs)
    labelled = set(zip(train, task.train_labels.tolist(), strict=True))
    held, known = hashes(task.test_inputs), set(train)
    same = sum(pair in labelled for pair in zip(held, task.test_labels.tolist(), strict=True))
    return {"test": len(held), "in_train": sum(key in known for key in held), "same_label": same}
