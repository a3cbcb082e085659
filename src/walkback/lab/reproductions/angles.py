"""Angles between what a method and backpropagation hand back, and between a weight and its feedback, in degrees.

    δ = a ∘ φ′: what reaches the last hidden layer before its activation; a is the credit of the last site

They are asked of the weights, so a run whose record alone is at hand has none.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.runs import checkpoint
from walkback.lab.runs.assembly import Assembly, assemble, dataset_of
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.store import StoredRun
from walkback.lab.zoo.answers import output_error
from walkback.lab.zoo.architectures.mlp import HiddenLayer
from walkback.lab.zoo.datasets import Batch, Batches, Split
from walkback.lab.zoo.methods.feedback_chain import FeedbackChain
from walkback.lab.zoo.modes import evaluating

SAMPLES = 1000
"""Of the training split, to see how far the published angle of one sample is a matter of the sample."""
FIRST_SAMPLES = {"mnist": "23ceaef5eb61f0e70d64ac18fdf0f60df3d5971cf30bbadac7b6ebf07f782d2c"}
"""SHA-256 of the pixels of the first training sample in the published files, a 5: here samples have another order."""


def angles_of(config: RunConfig, stored: StoredRun) -> dict[str, Any] | None:
    """The angles of a finished run from its last checkpoint; None where that is not here."""
    found = checkpoint.newest(stored.checkpoints)
    if found is None or found.epoch != config.epochs:
        return None
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    found.restore_networks(run)
    deltas = delta_angles(run, *_batch(dataset.train.take(SAMPLES)))
    first = delta_angles(run, *_batch(first_of_the_files(config.data, dataset.train)))
    low, middle, high = deltas.quantile(torch.tensor([0.05, 0.5, 0.95], dtype=deltas.dtype)).tolist()
    return {
        "delta angle": round(float(first), 2),
        "weight angle": round(head_angle(run), 2),
        "delta angle of other samples": {
            "samples": SAMPLES, "5 %": round(low, 2), "median": round(middle, 2), "95 %": round(high, 2),
        },
        **stamp(),
    }  # fmt: skip


def first_of_the_files(data: str, train: Split) -> Split:
    """The training sample that comes first in the files as they are published, whatever the order is here."""
    wanted = FIRST_SAMPLES.get(data)
    for place, pixels in enumerate(train.inputs if wanted else ()):
        if hashlib.sha256(pixels.numpy().tobytes()).hexdigest() == wanted:
            return replace(train, inputs=train.inputs[place : place + 1], labels=train.labels[place : place + 1])
    raise InputError(f"the first sample in the published files of {data} is not known, or not in the training split.")


def _batch(split: Split) -> Batch:
    return next(iter(Batches(split, len(split)).epoch(0)))


def delta_angles(run: Assembly, inputs: Tensor, targets: Tensor) -> Tensor:
    """The angle between the two δ of each sample, (B,), in fp64."""
    model, method = run.model, run.method
    last = list(model.blocks)[-1]
    if not isinstance(method, FeedbackChain) or not isinstance(last, HiddenLayer):
        raise InputError("delta angles are of methods with a feedback matrix for each layer, on architecture mlp.")
    with evaluating(model):
        hidden = model.stem(inputs)
        for block in list(model.blocks)[:-1]:
            hidden = block(hidden)
        before = last.linear(hidden.detach()).detach().requires_grad_()
        state = last.activation(before)
        error = output_error(model.head(state), targets, model.output)
    ways = (model.head.get_parameter("weight"), method.feedback("head"))
    true, handed = (torch.autograd.grad(state, before, error @ way.detach(), retain_graph=True)[0] for way in ways)
    return degrees(F.cosine_similarity(true.double(), handed.double(), dim=1, eps=0))


def head_angle(run: Assembly) -> float:
    """The angle between the head's weight and its feedback, each as one long vector."""
    assert isinstance(run.method, FeedbackChain)
    weight, feedback = run.model.head.get_parameter("weight"), run.method.feedback("head")
    pair = (weight.detach().double().flatten(), feedback.detach().double().flatten())
    return float(degrees(F.cosine_similarity(*pair, dim=0, eps=0)))


def degrees(cosine: Tensor) -> Tensor:
    """arccos, from 0 to 180."""
    return cosine.clamp(-1, 1).arccos() * (180 / math.pi)
