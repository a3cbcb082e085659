"""What a network of the zoo is asked and how its answers are scored: one class per sample, or one for each token.

Logits are (B, classes) with targets (B,), or (B, T, classes) with targets (B, T). A sample's loss is the mean over its
answers, so that everything that counts samples, such as credit, penalty and batch mean, counts sequences as it counts
images. All that tells one case from the other is here.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

Output = Literal["softmax", "sigmoid"]
"""What the logits of an answer mean. `softmax`: a distribution over the classes, and the loss is its cross-entropy.
`sigmoid`: a probability for each class by itself, and the loss is their binary cross-entropies, summed over classes."""


def mean_loss(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The mean loss over all answers of a batch."""
    if output == "sigmoid":
        return _binary(logits, targets).mean()
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def sample_losses(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The loss of each sample, the mean over its answers, (B,)."""
    if output == "sigmoid":
        each = _binary(logits, targets)
    else:
        each = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return each if targets.ndim == 1 else each.view(targets.shape).flatten(1).mean(dim=1)


def summed_loss(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """The losses of all samples of a batch, summed, so that each keeps the gradient of its own."""
    if output == "sigmoid":
        whole = _binary(logits, targets).sum()
    else:
        whole = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum")
    return whole if targets.ndim == 1 else whole / targets[0].numel()


def output_error(logits: Tensor, targets: Tensor, output: Output = "softmax") -> Tensor:
    """e = softmax(logits) − onehot(y), or σ(logits) − onehot(y), of each answer: ∂ℓ/∂logits of a sample's own loss."""
    told = logits.detach().sigmoid() if output == "sigmoid" else logits.detach().softmax(dim=-1)
    error = told.scatter_(-1, targets.unsqueeze(-1), -1, reduce="add")
    return error if targets.ndim == 1 else error / targets[0].numel()


def _binary(logits: Tensor, targets: Tensor) -> Tensor:
    """Σ over classes of each answer's binary cross-entropies, (N,)."""
    flat = logits.flatten(0, -2)
    wanted = F.one_hot(targets.flatten(), flat.shape[-1]).to(flat.dtype)
    return F.binary_cross_entropy_with_logits(flat, wanted, reduction="none").sum(dim=-1)


def are_right(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether each answer has its largest logit at its own class, and no NaN, shaped like the targets."""
    # argmax takes a NaN for the largest, which would make a diverged network right by the label's chance.
    return (logits.argmax(dim=-1) == targets) & ~logits.isnan().any(dim=-1)
