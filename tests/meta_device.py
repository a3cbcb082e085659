"""A device without values in place of a GPU: what would break there, or silently move data, shows here.

Tensors on torch's `meta` device have shapes and no values. Forward and backward passes run; a tensor of another device
among them raises mostly, but scalars, indices and `copy_` from the CPU slip through, and a GPU would wait for each of
them. `NoHost` sees every operation.
"""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ASKED = ("aten._local_scalar_dense", "aten.equal.", "aten.is_nonzero", "aten.nonzero.")


class NoHost(TorchDispatchMode):
    """Refuses every operation on a tensor of the CPU; every question about a value too, or answers it.

    With `answers` a value that is asked for is False or 0, two tensors are equal, a mask is all True, and what is taken
    to the CPU is zero: so code that looks at what it measures can go on. `waits` counts the questions by their place.
    """

    def __init__(self, answers: bool = False) -> None:
        super().__init__()
        self.answers = answers
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, str(func)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        kinds = {tensor.device.type for tensor in tensors}
        if self.answers and kinds == {"cpu"}:
            return func(*args, **kwargs)  # what was taken there
        if self.answers and kinds == {"meta"} and (answer := self._answer(name, args, kwargs)) is not None:
            self.waits[_place()] += 1
            return answer[0]
        assert not name.startswith(ASKED), f"{name} waits for a value at {_place()}"
        made = func(*args, **kwargs)
        kinds |= {leaf.device.type for leaf in tree_leaves(made) if isinstance(leaf, Tensor)}
        assert kinds <= {"meta"} or (self.answers and not tensors), f"{name} has a tensor of {kinds} at {_place()}"
        return made

    def _answer(self, name: str, args: Any, kwargs: Any) -> tuple[Any] | None:
        first = args[0] if args else None
        if name.startswith("aten.equal."):
            return (True,)
        if name.startswith(("aten._local_scalar_dense", "aten.is_nonzero")):
            return (False if first.dtype == torch.bool else 0.0 if first.is_floating_point() else 0,)
        if name.startswith("aten.nonzero."):
            return (torch.empty(first.numel(), first.ndim, dtype=torch.int64, device="meta"),)
        if name.startswith("aten.index.Tensor") and args[1][0] is not None and args[1][0].dtype == torch.bool:
            return (first.new_empty(args[1][0].numel(), *first.shape[args[1][0].ndim :]),)
        if name.startswith("aten._to_copy") and kwargs.get("device") == torch.device("cpu"):
            return (torch.zeros(first.shape, dtype=kwargs.get("dtype") or first.dtype),)
        return None


def _place() -> str:
    frames = [frame for frame in traceback.extract_stack() if "walkback" in frame.filename and "src" in frame.filename]
    return f"{frames[-1].filename.rpartition('walkback/')[2]}:{frames[-1].lineno}" if frames else "no code of walkback"
