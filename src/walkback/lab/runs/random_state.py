"""The states of all global random generators, as tensors and plain numbers that a checkpoint can hold."""

# ruff: noqa: NPY002 - the global generator of NumPy is what a third party's method may draw from.
from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor


def tensors() -> dict[str, Tensor]:
    """torch's generators: the CPU's, and one for each GPU in use."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states |= {f"cuda_{index}": state for index, state in enumerate(torch.cuda.get_rng_state_all())}
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


def restore(states: dict[str, Tensor], text: str) -> None:
    """Put every generator back to where it was."""
    torch.set_rng_state(states["cpu"])
    for name, state in states.items():
        if name.startswith("cuda_"):
            torch.cuda.set_rng_state(state, int(name.removeprefix("cuda_")))
    plain: dict[str, Any] = json.loads(text)
    version, internal, gauss = plain["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = plain["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
