"""Parameters that the output does not depend on: feedback matrices that a network keeps beside its weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.protocol.batch_sizes import on_few
from walkback.protocol.batches import Batch, read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.own_loss import labels_needed
from walkback.protocol.parameters import parameters_of
from walkback.protocol.untouched import random_states_kept, untouched


def unread_parameters(
    model: nn.Module, batches: Iterable[Any] | None, names: Sequence[str], calling: Calling | None = None
) -> list[str]:
    """Those of the named parameters that can have other values, and the logits stay what they are, bit for bit.

    Asked in eval mode, on the first samples. Without batches none is known to be unread.
    """
    if batches is None or not names:
        return []
    with untouched(model), torch.no_grad():
        first = labels_needed(model, next(read_batches(batches, model, calling=calling)))
        return on_few(model, first, lambda few: _unread(model, few, names))


def _unread(model: nn.Module, few: Batch, names: Sequence[str]) -> list[str]:
    as_found = _logits(model, few, ())
    if as_found.equal(_logits(model, few, names)):  # all of them at once: the usual case
        return list(names)
    return [name for name in names if as_found.equal(_logits(model, few, (name,)))]


def _logits(model: nn.Module, few: Batch, changed: Sequence[str]) -> Tensor:
    """What the network gives, from the same random state, with some parameters at other values."""
    parameters = parameters_of(model)
    kept = [(parameters[name], parameters[name].detach().clone()) for name in changed]
    # A pass may put new parameters in the place of these, and the next one must begin as this one did.
    slots = [(module._parameters, dict(module._parameters)) for module in model.modules()]
    with random_states_kept():
        try:
            for parameter, value in kept:
                parameter.copy_(-2 * value - 1)
            return few.call(model).detach().clone()
        finally:
            for store, before in slots:
                store.update({name: was for name, was in before.items() if store.get(name) is not was})
            for parameter, value in kept:
                parameter.copy_(value)
