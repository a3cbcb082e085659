"""The losses that models compute from labels themselves, per batch and per sample; targets that tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.protocol.losses import IGNORED, Loss


def next_tokens(targets: Tensor) -> Tensor:
    """Each target at the token before it, (B, T): t′[:, i] = t[:, i + 1], and nothing to score at the last."""
    return torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], IGNORED)], dim=1)


@dataclass(frozen=True)
class Candidate:
    """A loss that a model may have: a mean over all scored targets of a batch."""

    words: str
    value_of: Callable[[Tensor, Tensor], float | None]
    """(logits, targets) → the loss of the batch; None where the two do not fit this loss."""
    loss: Loss | None = None
    """Per sample; None for cross-entropy."""
    shifted: bool = False

    def value(self, logits: Tensor, targets: Tensor) -> float | None:
        """The loss of a batch, in fp64."""
        return self.value_of(logits.detach().double(), targets)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """(output − target)², the mean over each sample's outputs: (B, …) with as many targets → (B,)."""
    gaps = outputs.reshape(len(outputs), -1) - targets.reshape(len(targets), -1).to(outputs.dtype)
    return gaps.square().mean(dim=1)


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Of each class on its own, the mean over the classes: (B, C) with (B, C) in [0, 1] → (B,)."""
    return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none").flatten(1).mean(dim=1)


def _are_classes(logits: Tensor, targets: Tensor, axes: tuple[int, ...]) -> bool:
    """Whether targets are class indices, one for each row of logits with that many axes."""
    if logits.ndim not in axes or targets.is_floating_point() or targets.shape != logits.shape[:-1]:
        return False
    scored = targets[targets != IGNORED]
    return bool(scored.numel()) and int(scored.min()) >= 0 and int(scored.max()) < logits.shape[-1]


def _mean_cross_entropy(logits: Tensor, targets: Tensor) -> float:
    return float(F.cross_entropy(logits.flatten(0, -2), targets.long().flatten(), ignore_index=IGNORED))


def _classes(logits: Tensor, targets: Tensor) -> float | None:
    return _mean_cross_entropy(logits, targets) if _are_classes(logits, targets, (2,)) else None


def _tokens(logits: Tensor, targets: Tensor) -> float | None:
    return _mean_cross_entropy(logits, targets) if _are_classes(logits, targets, (3,)) else None


def _next_tokens(logits: Tensor, targets: Tensor) -> float | None:
    if not _are_classes(logits, targets, (3,)) or not bool((targets[:, 1:] != IGNORED).any()):
        return None
    return _mean_cross_entropy(logits, next_tokens(targets))


def _squared_error(outputs: Tensor, targets: Tensor) -> float | None:
    if not targets.is_floating_point() or targets.numel() != outputs.numel() or len(targets) != len(outputs):
        return None
    return float(squared_error(outputs, targets).mean())


def _binary(logits: Tensor, targets: Tensor) -> float | None:
    if not targets.is_floating_point() or targets.shape != logits.shape or logits.ndim != 2:
        return None
    return float(binary_cross_entropy(logits, targets).mean())


CANDIDATES = (
    Candidate("cross-entropy over classes", _classes),
    Candidate("token cross-entropy (labels as they are)", _tokens),
    Candidate("next-token cross-entropy (labels shifted by the model)", _next_tokens, shifted=True),
    Candidate("squared error", _squared_error, squared_error),
    Candidate("binary cross-entropy of each class", _binary, binary_cross_entropy),
)


def telling_targets(logits: Tensor, targets: Tensor) -> list[Tensor]:
    """Other targets of the same kind, on which losses differ that may agree on the true ones.

    Of classes the least and the most likely in turn; of tokens those that are likelier at their own place than at the
    one before; of numbers their distance from 1. What is not to be scored stays so.
    """
    if targets.is_floating_point():
        return [1 - targets]
    if targets.shape != logits.shape[:-1]:
        return []
    at = F.log_softmax(logits.detach().double(), dim=-1)
    if targets.ndim == 1:
        odd = torch.arange(len(targets), device=targets.device) % 2 == 1
        # A class that a model rules out has a logit of −∞, and no loss to compare.
        least = at.masked_fill(at.isinf(), torch.inf).argmin(dim=-1)
        other = torch.where(odd, at.argmax(dim=-1), least)
    else:
        before = torch.cat([torch.zeros_like(at[:, :1]), at[:, :-1]], dim=1)
        other = (at - before).masked_fill(at.isinf() | before.isinf(), -torch.inf).argmax(dim=-1)
    return [torch.where(targets == IGNORED, targets, other.to(targets.dtype))]


MOST_PADDING = 4
"""How many targets are tried as padding at most."""


def padding_suspects(targets: Tensor, named: object = None) -> list[int]:
    """Targets of tokens (B, T) that a model's loss may leave out besides −100: what sequences end or begin with twice.

    And any below 0, the token 0, and the one that the model's configuration names, where they occur.
    """
    if targets.ndim != 2 or targets.is_floating_point() or targets.dtype == torch.bool:
        return []
    found = [int(named)] if isinstance(named, int) else []
    found += [*sorted(set(targets[targets < 0].tolist())), 0]
    for one, other in ((targets[:, -1], targets[:, -2:][:, 0]), (targets[:, 0], targets[:, :2][:, -1])):
        found += sorted(set(one[one == other].tolist()))
    present = [value for value in dict.fromkeys(found) if value != IGNORED and bool((targets == value).any())]
    return present[:MOST_PADDING]


def half_padded(targets: Tensor, padding: int) -> Tensor:
    """Targets of tokens with padding at every other place."""
    odd = torch.arange(targets.shape[1], device=targets.device) % 2 == 1
    return torch.where(odd, torch.full_like(targets, padding), targets)
