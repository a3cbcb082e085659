"""WB007: `torch.load` without `weights_only`."""

from __future__ import annotations

from collections.abc import Iterator

from walkback.lint.module import Module, has_unpacking, keyword, text
from walkback.lint.rule import Hit, Rule


def check(module: Module) -> Iterator[Hit]:
    """Calls of torch.load that leave the choice to the installed version."""
    for call in module.calls:
        if module.dotted(call.func) not in {"torch.load", "torch.serialization.load"}:
            continue
        # With a pickle module of its own it executes code in every version: that choice was made.
        chosen = keyword(call, "weights_only", "pickle_module")
        if chosen is None and not has_unpacking(call):
            fixed = text(call, 80).removesuffix(")")
            what = f"`{text(call)}` leaves it to the torch version whether the file may execute code"
            yield Hit(call, what, f"{fixed}, weights_only=True)")


RULE = Rule(
    "WB007",
    "torch.load without weights_only",
    "Before torch 2.6 the file may run any code while it is read, since then it may not: the same line does one or the "
    "other by the installed version, and a reviewer who opens a checkpoint runs what is in it.",
    check,
)
