"""What a network keeps from one forward pass to the next: every pass begins from what was there when it came.

Spiking neurons keep their membranes, recurrent networks their last state, and many networks their activations, in
attributes of their modules or in buffers. A pass that went on from another batch's state would give other figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from walkback.protocol.tensors import version_of

OF_TORCH = frozenset(vars(nn.Module()))
"""Where torch itself keeps parameters, hooks and modes of a module."""
_GONE = object()
_held: WeakKeyDictionary[nn.Module, list[_State]] = WeakKeyDictionary()
"""By model, what its passes begin with: the last is what holds."""


@contextmanager
def passes_alike(model: nn.Module) -> Iterator[None]:
    """Begin every forward pass of a model with the state that it has now, and leave that behind.

    Not after each pass but before the next: a backward pass of the network's own may read what its forward pass kept.
    Inside another one of the same model, the inner state alone holds: with other weights in its place, or in fp64, a
    network has other buffers.
    """
    state = _State(list(model.modules()))
    _held.setdefault(model, []).append(state)
    handle = model.register_forward_pre_hook(
        lambda _module, _args: state.restore() if _held[model][-1] is state else None, prepend=True
    )
    try:
        yield
    finally:
        handle.remove()
        _held[model].pop()
        state.restore(by_value=True)


def begin_again(model: nn.Module) -> None:
    """Put a model into the state that its passes begin with, if that is held."""
    for state in _held.get(model, ())[-1:]:
        state.restore()


class _State:
    """Attributes and buffers of modules, the contents of lists and dictionaries among them, and tensors' values."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.stores: list[tuple[dict[str, Any], dict[str, Any]]]
        self.stores = [(vars(module), _own(vars(module))) for module in modules]
        self.stores += [(module._buffers, dict(module._buffers)) for module in modules]
        self.sizes = [len(store) for store, _ in self.stores]
        held = [value for _, before in self.stores for value in before.values()]
        held += [module.weight for module in modules if _renormalises(module)]
        self.lists = [(value, list(value)) for value in held if type(value) is list]
        self.mappings = [(value, dict(value)) for value in held if type(value) is dict]
        tensors = {id(value): value for value in held if isinstance(value, Tensor)}
        self.tensors = [(tensor, tensor.detach().clone(), version_of(tensor)) for tensor in tensors.values()]

    def restore(self, by_value: bool = False) -> None:
        """Put back what changed; what did not is not written to.

        Of a tensor, torch's count of changes is asked; by value, a write through .data is seen too, which leaves none.
        """
        for (store, before), size in zip(self.stores, self.sizes, strict=True):
            for name, value in before.items():
                if store.get(name, _GONE) is not value:
                    store[name] = value
            if len(store) != size:
                for name in [name for name in store if name not in before and name not in OF_TORCH]:
                    del store[name]
        for items, were in self.lists:
            if len(items) != len(were) or any(a is not b for a, b in zip(items, were, strict=True)):
                items[:] = were
        for mapping, was in self.mappings:
            if len(mapping) != len(was) or any(mapping.get(key, _GONE) is not value for key, value in was.items()):
                mapping.clear()
                mapping.update(was)
        self._restore_tensors(by_value)

    def _restore_tensors(self, by_value: bool) -> None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for number, (tensor, value, version) in enumerate(self.tensors):
                if version_of(tensor) != version or (by_value and not torch.equal(tensor, value)):
                    tensor.copy_(value)
                    self.tensors[number] = tensor, value, version_of(tensor)


def _renormalises(module: nn.Module) -> bool:
    """Whether a module writes to its weights as it reads them."""
    return isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None


def _own(attributes: dict[str, Any]) -> dict[str, Any]:
    """A module's attributes but those of torch."""
    return {name: value for name, value in attributes.items() if name not in OF_TORCH}
