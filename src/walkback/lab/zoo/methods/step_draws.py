"""Noise that a method draws at every step, from a seed of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

LARGEST_SEED = 2**62
_HELD = ("seed", "step")


class StepDraws(nn.Module):
    """A seed and a count of steps, both saved with the method: each step has a generator of its own.

    So a run that was cut goes on to the bit, what is frozen or measured meanwhile changes no draw, and torch's own
    generator is left alone. Both are plain numbers: reading a tensor on a GPU would make every step wait for it.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        super().__init__()
        self.seed = int(torch.randint(LARGEST_SEED, (), generator=generator, device="cpu"))
        self.step = 0

    def generator(self, device: torch.device = torch.device("cpu")) -> torch.Generator:  # noqa: B008
        """The generator of the step that comes next, on a device; asked twice, it draws the same again."""
        drawing = device if device.type in GENERATING else torch.device("cpu")
        return torch.Generator(drawing).manual_seed(self.seed + self.step)

    def advance(self) -> None:
        """The step is done."""
        self.step += 1

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name in _HELD:
            destination[prefix + name] = torch.tensor(getattr(self, name), dtype=torch.int64, device="cpu")

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name in _HELD:
            held = state_dict.get(prefix + name)
            if held is None:
                missing_keys.append(prefix + name)
            elif held.shape != () or held.dtype != torch.int64:
                error_msgs.append(f"{prefix + name} is {held.dtype}, {tuple(held.shape)}; expected a whole number")
            else:
                setattr(self, name, int(held))
        known = {prefix + name for name in _HELD}
        if strict:
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in known]


GENERATING = ("cpu", "cuda", "mps", "xpu")
"""Devices that draw by themselves: noise is made where it is used, and nothing is moved there step by step."""


def normal_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal values of a tensor's shape, type and place; the generator is that of the step."""
    drawn = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype, device=_drawn_at(tensor, generator))
    return drawn.to(tensor.device)


def whole_like(tensor: Tensor, low: int, high: int, generator: torch.Generator) -> Tensor:
    """Whole numbers from low to high − 1 of a tensor's shape and place."""
    drawn = torch.randint(low, high, tensor.shape, generator=generator, device=_drawn_at(tensor, generator))
    return drawn.to(tensor.device)


def _drawn_at(tensor: Tensor, generator: torch.Generator) -> torch.device:
    return tensor.device if tensor.is_meta else generator.device
