"""What in a forward pass may end a gradient, or hide it from finite differences: hints for a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from walkback.errors import NoGradient
from walkback.protocol.double import Doubled
from walkback.protocol.modes import FunctionMode
from walkback.protocol.seen_through import Sight
from walkback.protocol.site_reader import SiteReader


class _Narrowing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes conversions to a coarser precision, once the first site has been read."""

    def __init__(self, reader: SiteReader) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reader = reader
        self.found: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.reader.values and args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
            before, after = args[0].dtype, result.dtype
            if before.is_floating_point and after.is_floating_point and after.itemsize < before.itemsize:
                self.found.add(after)
        return result


def coarser_inside(doubled: Doubled) -> torch.dtype | None:
    """The coarsest precision that the forward pass converts something to by itself; None where it does not."""
    reader = SiteReader(doubled.chain, doubled.begin_in, gradients=False)
    noted = _Narrowing(reader)
    with torch.no_grad(), reader.attached(), noted:
        doubled.call()
    return max(noted.found, key=lambda dtype: torch.finfo(dtype).eps, default=None)


CUTS = {
    "detach": "detach", "detach_": "detach", "numpy": "numpy", "item": "item", "tolist": "tolist", "sign": "sign",
    "sgn": "sign", "round": "round", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "heaviside": "heaviside",
    "bernoulli": "bernoulli", "argmax": "argmax",
}  # fmt: skip
"""Operations that end a gradient, or have none, by the name that torch calls them by."""


class _Suspects(FunctionMode):
    """Notes operations that end a gradient, while it is asked to."""

    def __init__(self, here: Callable[[], bool]) -> None:
        super().__init__()
        self.here = here
        self.found: dict[str, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if self.here() and not caller.startswith("walkback."):
            name = getattr(func, "__name__", "")
            if name in CUTS:
                self.found[CUTS[name]] = None
            elif name == "__get__" and getattr(func, "__self__", None) is Tensor.data:
                self.found[".data"] = None
            if not torch.is_grad_enabled() and name != "__get__":
                self.found["no_grad"] = None
        return func(*args, **(kwargs or {}))


def suspects_after(doubled: Doubled, sight: Sight, site: int) -> list[str]:
    """What ends a gradient between a site and the next, as far as the calls of torch's functions show it."""
    found: dict[str, None] = {}

    def forward() -> None:
        reader = SiteReader(doubled.chain, doubled.begin_in)
        with reader.attached(), _Suspects(lambda: len(reader.values) == site + 1) as noted:
            found.clear()
            with suppress(NoGradient):  # at the cut itself: what led to it has been noted
                doubled.call()
            found.update(noted.found)

    sight.run(forward)
    return list(found)
