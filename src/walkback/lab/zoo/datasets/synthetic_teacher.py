"""Synthetic teacher: Gaussian inputs, labelled by a random tanh network; made on the spot, never downloaded.

    x ~ N(0, I_64);  z_0 = P x in 3 dimensions;  z_k = tanh(W_k z_{k−1}), k = 1, 2;  y = argmax(V z_2 + b)

with W_k ~ N(0, α²/fan_in) and 64 hidden units. **α is the difficulty**: a random tanh network with α well
below 1 is close to linear, and so are its class boundaries; beyond 1 it folds its input, ever more finely as
α grows, and the boundaries become rougher. The bottleneck P makes rough boundaries learnable at all from this
many samples: a network has to find three directions among 64, and then the folds. The logits are scaled to
unit variance each, and b makes all classes about equally frequent.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from walkback.errors import InputError
from walkback.lab.zoo.datasets.splits import AS_IT_IS, Dataset, Split

INPUTS, DIRECTIONS, HIDDEN, DEPTH, CLASSES = 64, 3, 64, 2, 10
TEST_SHARE = 0.2
EASIEST, HARDEST = 1e-6, 1e6
"""Limits of `alpha`: beyond them hardly a label changes, and far beyond, numbers fail."""

Floats = NDArray[np.float64]


def load(root: Path | str | None = None, *, alpha: float = 3.0, samples: int = 20_000, seed: int = 0) -> Dataset:
    """Draw a teacher and its samples, of which the last fifth are the test split; the same each time.

    `alpha` is the difficulty, `seed` chooses the teacher and the inputs. `root` is accepted, as by every data
    set, and not needed.
    """
    del root
    if not EASIEST <= alpha <= HARDEST:
        raise InputError(
            f"alpha is {alpha}; expected {EASIEST:g} to {HARDEST:g}: below 1 easy, above 1 ever harder. "
            "Beyond, hardly any of the teacher's labels changes."
        )
    if samples < 10 * CLASSES:
        raise InputError(f"{samples} samples were asked for; expected {10 * CLASSES} or more.")
    if seed < 0:
        raise InputError(f"seed is {seed}; expected a whole number, 0 or more.")
    generator = np.random.default_rng(seed)
    inputs = generator.standard_normal((samples, INPUTS), dtype=np.float32)
    labels = _balanced_argmax(_logits(inputs.astype(np.float64), alpha, generator))
    return _split(torch.from_numpy(inputs), torch.from_numpy(labels))


def _logits(inputs: Floats, alpha: float, generator: np.random.Generator) -> Floats:
    """The teacher's outputs (N, classes), each with mean 0 and variance 1 over the samples."""
    hidden = inputs @ _weights(INPUTS, DIRECTIONS, 1.0, generator)
    for _ in range(DEPTH):
        hidden = np.tanh(hidden @ _weights(hidden.shape[1], HIDDEN, alpha, generator))
    logits: Floats = hidden @ _weights(HIDDEN, CLASSES, 1.0, generator)
    standard: Floats = (logits - logits.mean(axis=0)) / logits.std(axis=0)
    return standard


def _weights(fan_in: int, fan_out: int, gain: float, generator: np.random.Generator) -> Floats:
    return generator.normal(0.0, gain / math.sqrt(fan_in), (fan_in, fan_out))


def _balanced_argmax(logits: Floats) -> NDArray[np.int64]:
    """The class of each sample, after offsets that lower the logit of whichever class is too frequent.

    Equal shares are the minimum of Σ_samples max_k(logit_k + b_k)/N − mean(b), which is convex in b; its
    gradient is what each class has beyond its share.
    """
    offsets = np.zeros(CLASSES)
    for _ in range(200):
        counts = np.bincount((logits + offsets).argmax(axis=1), minlength=CLASSES)
        offsets -= 0.05 * (counts * CLASSES / len(logits) - 1)
    labels: NDArray[np.int64] = (logits + offsets).argmax(axis=1).astype(np.int64)
    return labels


def _split(inputs: torch.Tensor, labels: torch.Tensor) -> Dataset:
    held_out = round(TEST_SHARE * len(labels))
    train = Split(inputs[:-held_out], labels[:-held_out], AS_IT_IS)
    test = Split(inputs[-held_out:], labels[-held_out:], AS_IT_IS)
    return Dataset("synthetic_teacher", train, test, tuple(f"class {label}" for label in range(CLASSES)))
