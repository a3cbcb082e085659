"""How much a step multiplies, whatever the machine."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "addmm_", "bmm", "baddbmm")}
"""Of two matrices, or of as many pairs of them."""


class Multiplications(TorchDispatchMode):
    """Counts those of matrix products; torch's own counter hooks every module, and a hooked layer is left whole."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS:
            left, right = args[-2:]
            self.count += left.numel() * right.shape[-1]
        return func(*args, **(kwargs or {}))
