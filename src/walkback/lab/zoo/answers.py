"""What a network of the zoo is asked and how its answers are scored: one class per sample, or one for each token.

Logits are (B, classes) with targets (B,), or (B, T, classes) with targets (B, T). A sample's loss is the mean over its
answers, so that everything that counts samples, such as credit, penalty and batch mean, counts sequences as it counts
images. All that tells one case from the other is here.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from walkback.lab.zoo.precision import in_full

Output = Literal["softmax", "sigmoid"]
"""What the logits of an answer mean. `softmax`: a distribution over the classes, and the loss is its cross-entropy.
`sigmoid`: a probability for each class by itself, and the loss is their binary cross-entropies, summed over classes."""


def mean_loss(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The mean loss over all answers of a batch.

    Args:
        logits: (B, classes), or (B, T, classes).
        targets: (B,), or (B, T), int64.
        output: what the logits mean: `softmax` for cross-entropy, `sigmoid` for binary cross-entropies, summed.

    Returns:
        One number, with its graph.

    Examples:
        >>> import torch
        >>> from walkback.lab import mean_loss
        >>> round(mean_loss(torch.zeros(2, 4), torch.tensor([0, 1])).item(), 4)  # log 4
        1.3863
    """
    if output == "sigmoid":
        return _binary(logits, targets).mean()
    return F.cross_entropy(in_full(logits).flatten(0, -2), targets.flatten())


def sample_losses(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The loss of each sample: the mean over its answers.

    Args:
        logits: (B, classes), or (B, T, classes).
        targets: (B,), or (B, T), int64.
        output: what the logits mean, as for `mean_loss`.

    Returns:
        (B,), with its graph.

    Examples:
        >>> import torch
        >>> from walkback.lab import sample_losses
        >>> sample_losses(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.int64)).shape
        torch.Size([2])
    """
    if output == "sigmoid":
        each = _binary(logits, targets)
    else:
        each = F.cross_entropy(in_full(logits).flatten(0, -2), targets.flatten(), reduction="none")
    return each if targets.ndim == 1 else each.view(targets.shape).flatten(1).mean(dim=1)


def summed_loss(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The losses of all samples of a batch, summed, so that each keeps the gradient of its own."""
    if output == "sigmoid":
        whole = _binary(logits, targets).sum()
    else:
        whole = F.cross_entropy(in_full(logits).flatten(0, -2), targets.flatten(), reduction="sum")
    return whole if targets.ndim == 1 else whole / targets[0].numel()


def output_error(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The error at the logits: ∂ℓ/∂logits of each sample's own loss, not divided by the batch size.

    Formula:
        e = softmax(logits) − onehot(y), or σ(logits) − onehot(y), divided by the number of answers of a sample.

    Args:
        logits: (B, classes), or (B, T, classes).
        targets: (B,), or (B, T), int64.
        output: what the logits mean, as for `mean_loss`.

    Returns:
        Shaped like the logits, without graph.

    Examples:
        >>> import torch
        >>> from walkback.lab import output_error
        >>> output_error(torch.zeros(1, 4), torch.tensor([2])).tolist()
        [[0.25, 0.25, -0.75, 0.25]]
    """
    full = in_full(logits.detach())
    told = full.sigmoid() if output == "sigmoid" else full.softmax(dim=-1)
    error = told.scatter_(-1, targets.unsqueeze(-1), -1, reduce="add")
    return error if targets.ndim == 1 else error / targets[0].numel()


def _binary(logits: Tensor, targets: Tensor) -> Tensor:
    """Σ over classes of each answer's binary cross-entropies, (N,)."""
    flat = in_full(logits).flatten(0, -2)
    wanted = F.one_hot(targets.flatten(), flat.shape[-1]).to(flat.dtype)
    return F.binary_cross_entropy_with_logits(flat, wanted, reduction="none").sum(dim=-1)


def are_right(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether each answer has its largest logit at its own class, and no NaN, shaped like the targets."""
    # argmax takes a NaN for the largest, which would make a diverged network right by the label's chance.
    return (logits.argmax(dim=-1) == targets) & ~logits.isnan().any(dim=-1)
