"""Where NaN or Inf may come from: whether the inputs hold some, and the network's parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from walkback.protocol.batches import Batch, mapped
from walkback.protocol.finite import NON_FINITE_SOURCE
from walkback.protocol.wording import counted

_MOST_NAMES = 3
_COUNTS = ("nonfinite_logits", "nonfinite_hiddens", "nonfinite_grads")


class InputMeter:
    """Counts the samples whose inputs hold NaN or Inf, as the batches pass."""

    def __init__(self) -> None:
        self.samples = self.broken = 0

    def watching(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches, looked at as they pass."""
        for batch in batches:
            self.samples += batch.size
            self.broken += _broken_samples(batch)
            yield batch

    def provenance(self, fields: Mapping[str, Any], model: nn.Module) -> dict[str, str]:
        """Where NaN or Inf may come from, where any was measured."""
        if not any(map(_some, (fields.get(name) for name in _COUNTS))):
            return {}
        return {NON_FINITE_SOURCE: f"{self._inputs()} {_weights(model)}"}

    def _inputs(self) -> str:
        if not self.broken:
            return f"The inputs of all {self.samples:,} samples are finite."
        holds = "holds" if self.broken == 1 else "hold"
        return f"Of {self.samples:,} samples {self.broken:,} {holds} NaN or Inf in the inputs."


def _some(count: Any) -> bool:
    return any(int(each) for each in count) if hasattr(count, "__len__") else bool(count)


def _broken_samples(batch: Batch) -> int:
    """How many; where the samples of a tensor cannot be told apart, all of them."""
    broken = torch.zeros(batch.size, dtype=torch.bool)

    def look(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point() and not _all_finite(tensor):
            apart = tensor.ndim > 0 and len(tensor) == batch.size
            rows = tensor.isfinite().reshape(batch.size, -1).all(dim=1) if apart else torch.tensor(False)
            broken.logical_or_(~rows.cpu())
        return tensor

    mapped(batch.inputs, look)
    return int(broken.sum())


def _all_finite(tensor: Tensor) -> bool:
    # NaN and Inf pass into a sum, which is cheaper than looking at each entry; it may overflow without them.
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _weights(model: nn.Module) -> str:
    """Which parameters and buffers hold NaN or Inf."""
    named = dict(chain(model.named_parameters(), model.named_buffers()))
    broken = [name for name, tensor in named.items() if tensor.is_floating_point() and not _all_finite(tensor)]
    if not broken:
        return "All parameters are finite."
    more = f" and {len(broken) - _MOST_NAMES} more" if len(broken) > _MOST_NAMES else ""
    holds = "holds" if len(broken) == 1 else "hold"
    listed = f"{', '.join(broken[:_MOST_NAMES])}{more}"
    return f"Of {counted(len(named), 'parameter')} {len(broken):,} {holds} NaN or Inf: {listed}."
