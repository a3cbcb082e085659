"""Whether a module may be taken apart: only one that computes what its class says."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from torch import nn

Kind = TypeVar("Kind", bound=nn.Module)


def is_plain(module: nn.Module, kind: type[Kind]) -> TypeGuard[Kind]:
    """Whether a call computes what this class does and nothing beside it: no subclass, no hooks, not compiled."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
        module._compiled_call_impl,
    )
    return type(module) is kind and not any(hooks)
