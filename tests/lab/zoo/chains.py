"""A chain of dense layers, and its passes in plain NumPy: what rules that were published for chains are held to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from plain_layers import plain
from torch import nn
from zoo_networks import DATA

from walkback.lab.zoo import BlockModel
from walkback.lab.zoo.architectures.small_cnn import Stage

WIDTHS = (7, 6, 5)


def chain(activation: type[nn.Module] = nn.Tanh, *, seed: int = 0) -> BlockModel:
    """Flatten, then Linear and activation three times (the stem and two blocks), then a Linear; in fp64."""
    torch.manual_seed(seed)
    sizes = (DATA.features, *WIDTHS)
    layers = [
        nn.Sequential(nn.Linear(below, above), activation()) for below, above in zip(sizes[:-1], WIDTHS, strict=True)
    ]
    stem = nn.Sequential(nn.Flatten(), *layers[0])
    blocks = [Stage(layer) for layer in layers[1:]]
    return BlockModel(stem, blocks, nn.Linear(WIDTHS[-1], DATA.classes), DATA).double()


def names() -> list[str]:
    """The layers, as the model calls them."""
    return ["stem.1", *(f"blocks.{index}.body.0" for index in range(len(WIDTHS) - 1)), "head"]


def weights(model: BlockModel) -> list[tuple[np.ndarray, np.ndarray]]:
    """W and b of each layer, from the first to the head."""
    found = dict(model.named_parameters())
    return [(plain(found[f"{name}.weight"]).copy(), plain(found[f"{name}.bias"]).copy()) for name in names()]


def activities(
    layers: list[tuple[np.ndarray, np.ndarray]], inputs: np.ndarray, phi: Callable[[np.ndarray], np.ndarray]
) -> list[np.ndarray]:
    """h_0 … h_L of flat inputs."""
    found, hidden = [], inputs
    for weight, bias in layers[:-1]:
        hidden = phi(hidden @ weight.T + bias)
        found.append(hidden)
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def one_hot(targets: torch.Tensor) -> np.ndarray:
    return np.eye(DATA.classes)[targets.numpy()]


def cross_entropy(logits: np.ndarray, targets: torch.Tensor) -> float:
    """The mean over samples."""
    return float(-np.log((softmax(logits) * one_hot(targets)).sum(axis=1)).mean())


def agree(got: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 1e-9) -> bool:
    """Whether all arrays are the same, relative to the largest entry of each."""
    return all(
        np.abs(one - other).max() <= tolerance * max(np.abs(other).max(), 1e-12)
        for one, other in zip(got, expected, strict=True)
    )


def gradients_of(model: BlockModel) -> list[np.ndarray]:
    """The gradient of W and of b of each layer, in one list."""
    found = dict(model.named_parameters())
    return [plain(found[f"{name}.{part}"].grad) for name in names() for part in ("weight", "bias")]


def outer(credit: np.ndarray, reads: np.ndarray) -> list[np.ndarray]:
    """The mean over samples of credit readsᵀ, and of the credit: what a layer's W and b learn."""
    return [credit.T @ reads / len(credit), credit.mean(axis=0)]


def differences(value: Callable[[], float], array: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient of a value at an array that it depends on, by central differences, entry by entry."""
    slope = np.empty_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + step
        above = value()
        array[index] = kept - step
        slope[index] = (above - value()) / (2 * step)
        array[index] = kept
    return slope
