"""Forward-mode differentiation: numbers that carry a tangent through a network."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from walkback.protocol.devices import without_autocast

# The rules of some layers are compiled when the first number gets a tangent, by what torch itself calls outdated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    with forward_ad.dual_level():
        forward_ad.make_dual(torch.zeros(1, device="cpu"), torch.zeros(1, device="cpu"))  # type: ignore[no-untyped-call]


@contextmanager
def tangents(device: torch.device) -> Iterator[None]:
    """Numbers may carry tangents; attention is computed in plain steps, because its fused form can carry none.

    In full precision: what torch converts on its way to half precision may lose its tangent's type.
    """
    with torch.no_grad(), without_autocast(device), forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH):
        yield


def moving(value: Tensor, tangent: Tensor) -> Tensor:
    """The value with this tangent, added to the one that it carries already."""
    there, carried = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    made: Tensor = forward_ad.make_dual(  # type: ignore[no-untyped-call]
        there, tangent if carried is None else carried + tangent
    )
    return made


def tangent_of(value: Tensor) -> Tensor:
    """The tangent that a value carries, zero where it carries none."""
    there, carried = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    return torch.zeros_like(there) if carried is None else carried.clone()
