"""Whether a module may be taken apart: only one that computes what its class says."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from torch import nn
from torch.nn.modules.module import _has_any_global_hook

Kind = TypeVar("Kind", bound=nn.Module)


def is_plain(module: nn.Module, kind: type[Kind]) -> TypeGuard[Kind]:
    """Whether a call is the class's own forward and nothing beside it: no other forward, no hooks, not compiled."""
    beside = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
        module._compiled_call_impl,
        "forward" in vars(module),
        _has_any_global_hook(),  # type: ignore[no-untyped-call]
    )
    return type(module) is kind and not any(beside)
