"""Reference fidelity: does the working-precision gradient point where the fp64 one does?"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from walkback.protocol import numerics
from walkback.protocol.capture import Capture, Sites
from walkback.protocol.sizes import GONE


class Fidelity(NamedTuple):
    """The mean cosine at each site over some samples, or why it could not be measured."""

    cosines: tuple[float, ...] | None
    why_not: str = ""
    samples: int = 0

    def fields(self) -> dict[str, Any]:
        """As fields of `Measurements`."""
        return {"reference_fidelity": self.cosines, "no_fidelity": self.why_not}


def fidelity_of(seen: Capture, exact: Sites | str) -> Fidelity:
    """How well the captured gradients of a batch agree with those of its first samples in fp64."""
    if all(h.dtype == torch.float64 for h in seen.hiddens):
        return Fidelity(tuple(1.0 for _ in seen.hiddens), samples=seen.samples)
    if isinstance(exact, str):
        return Fidelity(None, exact)
    rounded = [seen.reduction.vectors(g)[: len(exact.logits)] for g in seen.grads]
    doubled = [seen.reduction.vectors(g) for g in exact.grads]
    if len({vectors.shape for vectors in doubled}) == 1:
        cosines = _agreement(torch.stack(rounded), torch.stack(doubled)).mean(dim=1)
    else:
        cosines = torch.stack([_agreement(r, e).mean() for r, e in zip(rounded, doubled, strict=True)])
    return Fidelity(tuple(cosines.tolist()), samples=len(exact.logits))


def _agreement(rounded: Tensor, exact: Tensor) -> Tensor:
    """The cosine of each sample, (…, B, d) → (…, B); a gradient that is next to nothing in both precisions agrees."""
    cosines = numerics.cosines(rounded, exact)
    gone = _is_gone(rounded) & _is_gone(exact)
    # One that is zero in working precision alone has lost its direction altogether.
    return torch.where(gone, 1.0, cosines.nan_to_num(nan=0.0))


def _is_gone(vectors: Tensor) -> Tensor:
    return (vectors.double().abs() < GONE).all(dim=-1)
