"""The states of all global random generators, as tensors and plain numbers that a checkpoint can hold."""

# ruff: noqa: NPY002 - the global generator of NumPy is what a third party's method may draw from.
from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor


def tensors(device: torch.device) -> dict[str, Tensor]:
    """torch's generators: the CPU's, and that of the run's own device, by the kind of device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def words() -> str:
    """Python's and NumPy's generators, as JSON."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    return json.dumps({"python": random.getstate(), "numpy": [kind, np.asarray(keys).tolist(), *rest]})


def seed_all(seed: int) -> None:
    """Start every generator from one seed."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def restore(states: dict[str, Tensor], text: str, device: torch.device) -> None:
    """Put every generator back to where it was; the device's own stays as it is where another device was left."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    elif device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(states["mps"])
    plain: dict[str, Any] = json.loads(text)
    version, internal, gauss = plain["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = plain["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
