"""Run a model for a moment in another mode, and leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode: running statistics are used and do not move, dropout is off."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def statistics_still(model: nn.Module) -> Iterator[None]:
    """Training mode goes on, but BatchNorm's running statistics do not move."""
    # Without tracking, a BatchNorm in training mode normalises by the batch and writes nothing down.
    norms = [module for module in model.modules() if isinstance(module, _NormBase)]
    tracking = [norm for norm in norms if norm.training and norm.track_running_stats]
    for module in tracking:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True


@contextmanager
def seeded_by(generator: torch.Generator | None) -> Iterator[None]:
    """Let torch's initialisers, which take no generator, draw from this one. None: torch's own."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
