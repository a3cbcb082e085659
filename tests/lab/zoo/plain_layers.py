"""Layers in plain NumPy, one sum at a time: what the zoo's forward passes are held against."""

from __future__ import annotations

import itertools
import math

import numpy as np
from torch import Tensor, nn

EPSILON = 1e-5
"""Of torch's norms."""


def plain(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)


def linear(layer: nn.Linear, inputs: np.ndarray) -> np.ndarray:
    return inputs @ plain(layer.weight).T + plain(layer.bias)


def layer_norm(norm: nn.LayerNorm, inputs: np.ndarray) -> np.ndarray:
    out = np.empty_like(inputs)
    for row, values in enumerate(inputs):
        out[row] = (values - values.mean()) / math.sqrt(values.var() + EPSILON)
    return out * plain(norm.weight) + plain(norm.bias)


def gelu(inputs: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda z: z * 0.5 * (1 + math.erf(z / math.sqrt(2))))(inputs)


def phi(alpha: float, inputs: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda z: (1 - alpha) * z + alpha * math.tanh(z))(inputs)


def conv(layer: nn.Conv2d, images: np.ndarray) -> np.ndarray:
    """3×3 with a border of zeros, (B, C, S, S) → (B, C', S, S)."""
    kernel, (count, _, side, _) = plain(layer.weight), images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((count, len(kernel), side, side))
    for sample, channel, row, column in itertools.product(*map(range, out.shape)):
        out[sample, channel, row, column] = np.sum(
            padded[sample, :, row : row + 3, column : column + 3] * kernel[channel]
        )
    return out if layer.bias is None else out + plain(layer.bias)[:, None, None]


def batch_norm(norm: nn.BatchNorm2d, images: np.ndarray) -> np.ndarray:
    """By the batch in training mode, by the running statistics in eval mode."""
    out, gain, shift = np.empty_like(images), plain(norm.weight), plain(norm.bias)
    for channel in range(images.shape[1]):
        values = images[:, channel]
        mean, variance = values.mean(), values.var()
        if not norm.training:
            mean, variance = float(norm.running_mean[channel]), float(norm.running_var[channel])
        out[:, channel] = (values - mean) / math.sqrt(variance + EPSILON) * gain[channel] + shift[channel]
    return out


def relu(inputs: np.ndarray) -> np.ndarray:
    return np.maximum(inputs, 0)


def max_pool(images: np.ndarray) -> np.ndarray:
    count, channels, side, _ = images.shape
    out = np.empty((count, channels, side // 2, side // 2))
    for row, column in itertools.product(range(side // 2), repeat=2):
        out[:, :, row, column] = images[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].max(axis=(2, 3))
    return out
