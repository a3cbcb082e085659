"""Noise that a method draws at every step, from a seed of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LARGEST_SEED = 2**62


class StepDraws(nn.Module):
    """A seed and a count of steps, both saved with the method: each step has a generator of its own.

    So a run that was cut goes on to the bit, what is frozen or measured meanwhile changes no draw, and torch's own
    generator is left alone.
    """

    seed: Tensor
    step: Tensor

    def __init__(self, generator: torch.Generator | None) -> None:
        super().__init__()
        self.register_buffer("seed", torch.randint(LARGEST_SEED, (), generator=generator))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def generator(self) -> torch.Generator:
        """The generator of the step that comes next; asked twice, it draws the same again."""
        return torch.Generator().manual_seed(int(self.seed) + int(self.step))

    def advance(self) -> None:
        """The step is done."""
        self.step += 1


def normal_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal values of a tensor's shape, type and place."""
    drawn = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
    return drawn.to(tensor.device)
