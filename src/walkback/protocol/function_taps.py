"""Sites that no module reads or writes, found again in another pass: at the n-th function after a module's call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from walkback.protocol.modes import FunctionMode
from walkback.protocol.sites import Tap
from walkback.protocol.tensors import counts_as_step, floating_tensors

Anchor = tuple[nn.Module, str, int]
"""A module, whether it is entered or left, and how often that happened before."""


class FunctionTaps(FunctionMode):
    """While it is entered, hands over each site that a function makes; `passed` says where the pass is."""

    def __init__(self, taps: Sequence[Tap], take: Callable[[Tap, Tensor], None]) -> None:
        super().__init__()
        self._take = take
        self._at: dict[Anchor, list[Tap]] = {}
        for tap in taps:
            if tap.step:
                self._at.setdefault((tap.module, tap.end, tap.nth), []).append(tap)
        self._waiting: list[Tap] = []
        self._steps = 0

    def passed(self, module: nn.Module, end: str, nth: int) -> None:
        """A module is entered or left: begin to count the functions after that, if a site is among them."""
        self._waiting, self._steps = list(self._at.get((module, end, nth), ())), 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function, and hand over what it made where that is a site."""
        result = func(*args, **(kwargs or {}))
        if self._waiting and counts_as_step(func, result):
            self._steps += 1
            while self._waiting and self._waiting[0].step == self._steps:
                tap = self._waiting.pop(0)
                made = floating_tensors(result if tap.position >= 0 else args)
                place = max(tap.position, 0)
                if place < len(made):
                    self._take(tap, made[place])
        return result


def needs_functions(taps: Sequence[Tap]) -> bool:
    """Whether a site is made by a function, so that functions must be watched."""
    return any(tap.step for tap in taps)
