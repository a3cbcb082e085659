"""The same networks in torch and in JAX, with the same weights, and what both engines say of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def array(tensor):
    return jnp.asarray(tensor.detach().numpy())


class TorchBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.first, self.second = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, h):
        return h + self.second(F.gelu(self.first(self.norm(h))))


class TorchMLP(nn.Module):
    def __init__(self, inputs=12, width=24, depth=4, classes=5):
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(TorchBlock(width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class TorchMixer(TorchBlock):
    """A block over tokens, which mixes them first."""

    def __init__(self, width):
        super().__init__(width)
        self.mix = nn.Parameter(torch.randn(6, 6) / 6)

    def forward(self, h):
        return super().forward(h + torch.einsum("st,btd->bsd", self.mix, h))


class TorchTokens(TorchMLP):
    """The head reads the first token alone, or all of them."""

    def __init__(self, *, read_all=False):
        super().__init__()
        self.blocks = nn.ModuleList(TorchMixer(24) for _ in range(3))
        self.read_all = read_all

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        return self.head(h if self.read_all else h[:, 0])


class TorchConv(nn.Module):
    def __init__(self, channels=6, depth=3, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = torch.tanh(block(h))
        return self.head(h.mean(dim=(2, 3)))


def parameters(model):
    return {name: array(value) for name, value in model.named_parameters()}


def norm(p, name, h):
    mean, variance = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
    return (h - mean) / jnp.sqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(p, name, h):
    return h @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def block(number):
    def run(p, h):
        name = f"blocks.{number}"
        inner = linear(p, f"{name}.first", norm(p, f"{name}.norm", h))
        return h + linear(p, f"{name}.second", jax.nn.gelu(inner, approximate=False))

    return run


def stem(p, x):
    return linear(p, "stem", x)


def head(p, h):
    return linear(p, "head", norm(p, "norm", h))


def class_head(p, h):
    return head(p, h)[:, 0]


def mixed(number):
    def run(p, h):
        return block(number)(p, h + jnp.einsum("st,btd->bsd", p[f"blocks.{number}.mix"], h))

    return run


def conv(p, name, h):
    kernel = jnp.transpose(p[f"{name}.weight"], (2, 3, 1, 0))
    return (
        jax.lax.conv_general_dilated(h, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        + p[f"{name}.bias"]
    )


def conv_block(number):
    return lambda p, h: jnp.tanh(conv(p, f"blocks.{number}", h))


def conv_stem(p, x):
    return conv(p, "stem", x)


def conv_head(p, h):
    return linear(p, "head", h.mean(axis=(1, 2)))


def whole(stem, blocks, head):
    def apply(p, x):
        h = stem(p, x)
        for each in blocks:
            h = each(p, h)
        return head(p, h)

    return apply


def samples(shape, classes, count=300, seed=0, sizes=(128, 128, 44)):
    drawn = np.random.default_rng(seed)
    inputs = drawn.normal(size=(count, *shape)).astype(np.float32)
    labels = drawn.integers(0, classes, count)
    ends = np.cumsum(sizes)
    return [(inputs[end - size : end], labels[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def trained(model, batches, steps=30, rate=3e-3):
    """A few steps of Adam, so that the network is no random one."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        logits = model(torch.from_numpy(x))
        F.cross_entropy(logits.flatten(0, -2), torch.from_numpy(y).flatten()).backward()
        optimizer.step()
    return model


def feedback(seed, widths, classes):
    drawn = np.random.default_rng(seed)
    return [drawn.normal(size=(classes, width)).astype(np.float32) for width in widths]


def torch_credit(matrices, others=()):
    """DFA's, with its other draws in their order."""
    rest = iter(others)

    def credit(hiddens, logits, targets):
        error = torch.softmax(logits, -1) - F.one_hot(targets, logits.shape[-1])
        return [error @ torch.from_numpy(each) for each in matrices]

    credit.redraw = lambda generator: torch_credit(next(rest))
    credit.independent_feedback = True
    return credit


def jax_credit(matrices, others=()):
    rest = iter(others)

    def credit(hiddens, logits, targets):
        error = jax.nn.softmax(logits) - jax.nn.one_hot(targets, logits.shape[-1])
        return [error @ each for each in matrices]

    credit.redraw = lambda key: jax_credit(next(rest))
    credit.independent_feedback = True
    return credit
