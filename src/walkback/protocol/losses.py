"""The per-sample loss, its gradient at the logits, and the accuracy, in the precision they need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.errors import BatchError, InputError, WalkbackError
from walkback.protocol.scores import Score

Loss = Callable[[Tensor, Tensor], Tensor]
"""(logits, targets) → one loss per sample, shape (B,)."""

IGNORED = -100
"""The target that marks a token as not to be scored, as in torch.nn.functional.cross_entropy."""


def cross_entropy_error(logits: Tensor, targets: Tensor) -> Tensor:
    """softmax − onehot: ∂ℓ/∂logits of cross-entropy over classes (B, C) with (B,), or tokens (B, T, C) with (B, T).

    A sequence's loss is the mean over its scored tokens.
    """
    _check_classes(logits, targets)
    targets = targets.long()
    error = F.softmax(logits, dim=-1)
    error.scatter_add_(-1, targets.clamp(min=0).unsqueeze(-1), error.new_tensor(-1.0).expand(*targets.shape, 1))
    if logits.ndim == 3:
        scored = targets != IGNORED
        error = error * (scored / scored.sum(dim=1, keepdim=True).clamp(min=1)).unsqueeze(-1)
    return error


def _check_classes(logits: Tensor, targets: Tensor) -> None:
    if logits.ndim not in (2, 3) or targets.shape != logits.shape[:-1] or targets.is_floating_point():
        raise BatchError(
            f"logits of shape {tuple(logits.shape)} with {targets.dtype} targets of shape {tuple(targets.shape)} do "
            "not fit cross-entropy; expected (B, C) with B class indices, or (B, T, C) with (B, T). "
            f"{_remedy(logits, targets)}"
        )
    scored = targets[targets != IGNORED] if logits.ndim == 3 else targets
    if not _in_range(logits, scored):
        raise BatchError(
            f"the labels run from {int(scored.min())} to {int(scored.max())}, but the model has "
            f"{_counted(logits.shape[-1])}; expected 0 … {logits.shape[-1] - 1}. {_remedy_of_range(logits, scored)}"
        )


def _remedy(logits: Tensor, targets: Tensor) -> str:
    """What to do about targets that are no class indices."""
    if targets.shape == logits.shape and _is_one_hot(targets):
        return "These targets are one-hot: give class indices, targets.argmax(-1)."
    if targets.shape == (*logits.shape[:-1], 1):
        index = ".long()" if targets.is_floating_point() else ""
        return f"For class indices in a column of their own give targets{index}.squeeze(-1)."
    if targets.shape == logits.shape[:-1] and bool((targets == targets.round()).all()):
        return "These are class indices as floating numbers: give targets.long()."
    if logits.ndim > 3 and targets.shape == (*logits.shape[:1], *logits.shape[2:]) and not targets.is_floating_point():
        axes = tuple(range(1, targets.ndim))
        return (
            "For a class at every place pass loss=lambda logits, y: torch.nn.functional.cross_entropy(logits, y, "
            f"reduction='none').mean({axes})."
        )
    return "For anything else pass loss=, a function of (logits, targets) that gives one loss per sample."


def _remedy_of_range(logits: Tensor, scored: Tensor) -> str:
    """What to do about labels that are no classes of the logits."""
    if logits.shape[-1] == 1:
        return (
            "For two classes and one number, pass the loss that the network was trained with, such as loss=lambda "
            "logits, y: torch.nn.functional.binary_cross_entropy_with_logits(logits.squeeze(-1), y.to(logits.dtype), "
            "reduction='none')."
        )
    if int(scored.min()) < 0:
        below = f"Where {int(scored.min())} means that nothing is to be scored, "
        return below + (f"put {IGNORED} in its place." if logits.ndim == 3 else "leave those samples out.")
    return "Are these the labels of this network?"


def _counted(classes: int) -> str:
    return f"{classes} class{'es' if classes != 1 else ''}"


def _is_one_hot(targets: Tensor) -> bool:
    return bool(((targets == 0) | (targets == 1)).all()) and bool((targets.sum(dim=-1) == 1).all())


def _in_range(logits: Tensor, targets: Tensor) -> bool:
    """Whether all targets to score are classes of the logits."""
    scored = targets[targets != IGNORED] if logits.ndim == 3 else targets
    return not scored.numel() or (int(scored.min()) >= 0 and int(scored.max()) < logits.shape[-1])


def error_at_logits(loss: Loss | None, logits: Tensor, targets: Tensor) -> Tensor:
    """∂ℓ(x)/∂logits(x) of each sample's own loss, in fp64.

    Cross-entropy is computed in fp64: in fp32 a confident sample's own term rounds to zero and bends the
    direction of its gradient. A caller's loss gets fp32 at least, whatever the model computes in.
    """
    if loss is None:
        return cross_entropy_error(logits.detach().double(), targets)
    if not callable(loss):
        raise InputError(
            f"loss= is a {type(loss).__name__}; expected a function of (logits, targets) that gives one loss per "
            "sample."
        )
    at = logits.detach()
    at = (at.float() if at.dtype in (torch.float16, torch.bfloat16) else at.clone()).requires_grad_()
    values = values_of(loss, at, targets)
    (error,) = torch.autograd.grad(values.sum(), at, allow_unused=True) if values.requires_grad else (None,)
    if error is None:
        raise InputError("loss= gave a value that does not depend on the logits; expected a differentiable loss.")
    return error.double()


def values_of(loss: Loss, logits: Tensor, targets: Tensor) -> Tensor:
    """What a loss of the caller's gives, (B,); targets that are numbers come in the precision of the logits at least.

    Not every loss of torch's takes logits in fp64 with targets in fp32.
    """
    wide = targets.to(torch.promote_types(targets.dtype, logits.dtype)) if targets.is_floating_point() else targets
    try:
        values = loss(logits, wide)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        if isinstance(error, WalkbackError):
            raise
        raise InputError(
            f"loss= failed on logits of shape {tuple(logits.shape)} ({logits.dtype}) and targets of shape "
            f"{tuple(wide.shape)} ({wide.dtype}): {type(error).__name__}: {error}. Expected a function of (logits, "
            "targets) that gives one loss per sample; it gets the targets as they are in the batch, so convert them "
            "there or in it."
        ) from error
    _check_per_sample(values, logits)
    return values


def are_probabilities(logits: Tensor) -> bool:
    """Whether each row is a distribution over two classes or more: no entry below 0, and a sum of 1 to rounding."""
    if logits.ndim < 2 or logits.shape[-1] < 2 or not logits.numel() or not bool(logits.min() >= 0):
        return False
    off = (logits.double().sum(dim=-1) - 1).abs().max()
    return bool(off <= 8 * torch.finfo(logits.dtype).eps * logits.shape[-1] ** 0.5)


def _check_per_sample(values: object, logits: Tensor) -> None:
    if isinstance(values, Tensor) and values.shape == logits.shape[:1]:
        return
    got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
    raise InputError(
        f"loss= gave {got} for {logits.shape[0]} samples; expected one loss per sample, shape ({logits.shape[0]},). "
        "With a torch loss, pass reduction='none' and average everything but the first axis."
    )


@dataclass(frozen=True)
class Answers:
    """What was predicted right: of how many scored answers, on how many samples that have any."""

    correct: int
    answers: int
    samples: int
    surprise: float | None = None
    """Of tokens, −log p of the right one, summed over all that are scored; None where samples are no sequences."""
    classes: int | None = None
    """How many each was chosen from."""

    def plus(self, other: Answers) -> Answers:
        """Both together."""
        both = None if self.surprise is None or other.surprise is None else self.surprise + other.surprise
        counts = self.correct + other.correct, self.answers + other.answers, self.samples + other.samples
        return Answers(*counts, both, self.classes or other.classes)

    @property
    def perplexity(self) -> float | None:
        """exp of the mean −log p over all scored tokens; None where samples are no sequences of tokens."""
        if self.surprise is None or not self.answers:
            return None
        mean = self.surprise / self.answers
        return math.exp(mean) if mean < 700 or mean != mean else math.inf

    def score(self) -> Score | None:
        """The share of right answers; the tokens of one sequence are several answers and one sample."""
        if not self.answers:
            return None
        several = self.answers if self.answers != self.samples else None
        return Score(value=self.correct / self.answers, samples=self.samples, answers=several)


def count_correct(logits: Tensor, targets: Tensor) -> Answers | None:
    """Right and scored predictions; None where the targets are not class indices, or the outputs no classes."""
    if not _are_classes(logits, targets):
        return None
    scored = targets != IGNORED
    # A row with NaN has no prediction: argmax would make NaN its choice, and may be right by luck.
    known = ~logits.isnan().any(dim=-1)
    hits = (logits.argmax(dim=-1) == targets) & scored & known
    samples = int(scored.reshape(len(scored), -1).any(dim=1).sum())
    surprise = _surprise(logits, targets) if logits.ndim == 3 else None
    return Answers(int(hits.sum()), int(scored.sum()), samples, surprise, logits.shape[-1])


def _are_classes(logits: Tensor, targets: Tensor) -> bool:
    """Whether each target that is scored is one of the outputs beside it; of one number nothing is chosen."""
    if targets.is_floating_point() or targets.shape != logits.shape[:-1] or logits.shape[-1] < 2:
        return False
    scored = targets[targets != IGNORED]
    return not scored.numel() or (int(scored.min()) >= 0 and int(scored.max()) < logits.shape[-1])


@torch.no_grad()
def is_least_at_target(loss: Loss, logits: Tensor, targets: Tensor) -> bool:
    """Whether a loss of (B, C) logits asks for the largest of them at the target, as one that teaches classes does.

    The largest output of each sample changes places with the target's, and with another one's.
    """
    scored = targets != IGNORED
    logits, targets, rows = logits[scored], targets[scored], torch.arange(int(scored.sum()))
    at_target, elsewhere = logits.clone(), logits.clone()
    for moved, place in ((at_target, targets), (elsewhere, (targets + 1) % logits.shape[-1])):
        largest = logits.argmax(dim=-1)
        moved[rows, largest], moved[rows, place] = logits[rows, place], logits[rows, largest]
    smaller = values_of(loss, at_target, targets) < values_of(loss, elsewhere, targets)
    return 2 * int(smaller.sum()) >= len(smaller)


def right_of_each(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor] | None:
    """Whether each scored sample is answered rightly, and its class, (N,) each; None where samples have no one class.

    A row with NaN is answered wrongly.
    """
    if logits.ndim != 2 or not _are_classes(logits, targets):
        return None
    scored, known = targets != IGNORED, ~logits.isnan().any(dim=1)
    right = (logits.argmax(dim=1) == targets) & known
    return right[scored].detach().cpu(), targets[scored].detach().long().cpu()


def _surprise(logits: Tensor, targets: Tensor) -> float:
    """Σ −log p of the right token over all scored ones, in fp64; sequence after sequence, to save memory."""
    rows = zip(logits.detach(), targets.long(), strict=True)
    logs = Tensor.log if are_probabilities(logits) else partial(F.log_softmax, dim=-1)
    each = [F.nll_loss(logs(row.double()), right, ignore_index=IGNORED, reduction="sum") for row, right in rows]
    return float(torch.stack(each).sum())
