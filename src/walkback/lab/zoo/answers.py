"""What a network of the zoo is asked and how its answers are scored: one class per sample, or one for each token.

Logits are (B, classes) with targets (B,), or (B, T, classes) with targets (B, T). A sample's loss is the mean over its
answers, so that everything that counts samples, such as credit, penalty and batch mean, counts sequences as it counts
images. All that tells one case from the other is here.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from walkback.lab.zoo.precision import in_full


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy over all answers of a batch."""
    return F.cross_entropy(in_full(logits).flatten(0, -2), targets.flatten())


def sample_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of each sample, the mean over its answers, (B,)."""
    each = F.cross_entropy(in_full(logits).flatten(0, -2), targets.flatten(), reduction="none")
    return each if targets.ndim == 1 else each.view(targets.shape).flatten(1).mean(dim=1)


def summed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The losses of all samples of a batch, summed, so that each keeps the gradient of its own."""
    whole = F.cross_entropy(in_full(logits).flatten(0, -2), targets.flatten(), reduction="sum")
    return whole if targets.ndim == 1 else whole / targets[0].numel()


def output_error(logits: Tensor, targets: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y) over the answers of a sample: ∂ℓ/∂logits of each sample's own loss."""
    error = in_full(logits.detach()).softmax(dim=-1).scatter_(-1, targets.unsqueeze(-1), -1, reduce="add")
    return error if targets.ndim == 1 else error / targets[0].numel()


def are_right(logits: Tensor, targets: Tensor) -> Tensor:
    """Whether each answer has its largest logit at its own class, and no NaN, shaped like the targets."""
    # argmax takes a NaN for the largest, which would make a diverged network right by the label's chance.
    return (logits.argmax(dim=-1) == targets) & ~logits.isnan().any(dim=-1)
