"""Blocks at random with the norms of trained ones: a baseline that is not nearly the identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BaselineError, InputError
from walkback.protocol.parameters import parameters_of
from walkback.protocol.schema import shortened
from walkback.protocol.untouched import underneath
from walkback.registry import did_you_mean

PLACES = ("init", "trained norms")


def check_trained(blocks_at: Any, trained: Any) -> dict[str, Tensor] | None:
    """The trained parameters by name, where the norms are to be theirs; None for blocks as they are built."""
    if blocks_at not in PLACES:
        raise InputError(f"blocks_at is {shortened(blocks_at)}. {did_you_mean(str(blocks_at), PLACES)}")
    if blocks_at == "init":
        if trained is not None:
            raise InputError("trained= is for blocks_at='trained norms'; blocks at init need none. Leave one out.")
        return None
    if isinstance(trained, nn.Module):
        return {name: parameter.detach() for name, parameter in parameters_of(underneath(trained)).items()}
    if not isinstance(trained, Mapping) or not all(isinstance(value, Tensor) for value in trained.values()):
        raise InputError(
            f"blocks_at='trained norms' got trained={shortened(trained)}; expected the trained network, or its "
            "state_dict."
        )
    return dict(trained)


@torch.no_grad()
def redraw_at_norms(frozen: Mapping[str, nn.Parameter], trained: Mapping[str, Tensor]) -> None:
    """Draw each parameter anew, and give it the norm that it has in the trained network.

    Matrices and kernels get normal entries, scaled to the Frobenius norm. Vectors, which are gains and biases, get the
    trained entries in a random order: normal ones would turn the sign of half the gains of a norm layer.
    """
    for name, parameter in frozen.items():
        there = trained.get(name)
        if there is None or there.shape != parameter.shape:
            came = "has no such parameter" if there is None else f"has it with the shape {tuple(there.shape)}"
            raise BaselineError(
                f"{name}, of shape {tuple(parameter.shape)}, is to get the norm of the trained one, and trained= "
                f"{came}. Give the network that make_model builds, trained."
            )
        if not there.isfinite().all():
            raise BaselineError(f"{name} of trained= holds NaN or Inf, so it has no norm. Give a network without them.")
        parameter.copy_(_redrawn(there.to(parameter)))


def _redrawn(there: Tensor) -> Tensor:
    if there.ndim < 2:
        flat = there.reshape(-1)
        return flat[torch.randperm(len(flat), device=flat.device)].reshape(there.shape)
    drawn = torch.randn_like(there)
    norm, wanted = (torch.linalg.vector_norm(tensor.double()) for tensor in (drawn, there))
    return drawn * (wanted / norm).to(drawn) if norm > 0 else torch.zeros_like(there)
