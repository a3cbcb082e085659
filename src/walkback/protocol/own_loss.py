"""Which loss is measured: the model's own where it returns one for its labels, found again sample by sample.

A model that takes labels (Hugging Face's do) returns one number for a batch. What is measured needs a loss per sample
and to know which target belongs to which logits: a causal language model moves its labels by one token itself, others
expect that they have been moved. So the model is asked: its number is compared with what each candidate gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, InputError
from walkback.protocol.asking import Answer, Asked, label_keyword, look_at, tried
from walkback.protocol.batches import Batch
from walkback.protocol.loss_candidates import CANDIDATES, next_tokens
from walkback.protocol.loss_fits import Fits, marked, padding_of
from walkback.protocol.losses import (
    IGNORED,
    Loss,
    are_probabilities,
    count_correct,
    error_at_logits,
    is_least_at_target,
)

ASK = "Pass loss=, a function of (logits, targets) that gives one loss per sample; it gets the targets as they are."


@dataclass(frozen=True)
class LossTaken:
    """Which loss is measured, and how batches are made ready for it."""

    loss: Loss | None = None
    """Per sample; None for cross-entropy."""
    words: str = "cross-entropy"
    """The loss in one line."""
    keyword: str | None = None
    """The argument under which every call of the model gets the labels; None where it needs none."""
    shifted: bool = False
    """The logits of a token are scored by the next target, so batches get their targets moved."""
    remark: str = ""
    """What a reader must know about it."""
    counted: bool = True
    """Whether targets are known to stand beside the logits that they score, so that right answers can be counted."""
    padding: int | None = None
    """A target that the model's own loss leaves out, besides −100."""
    presumed: bool = False
    """Cross-entropy for want of anything that says which loss it is."""

    def ready(self, batch: Batch) -> Batch:
        """A batch as it was read, with its targets beside the logits that they score."""
        labels = {self.keyword: batch.targets} if self.keyword is not None else {}
        targets = marked(batch.targets, self.padding)
        targets = next_tokens(targets) if self.shifted else targets
        return replace(batch, targets=targets, labels=labels)

    def check_outputs(self, logits: Tensor, with_error: bool) -> None:
        """Refuse probabilities where cross-entropy was presumed: it would put a second softmax on them."""
        if self.presumed and (with_error or logits.ndim == 3) and are_probabilities(logits):
            log, mean = ("p.log().transpose(1, 2)", ".mean(1)") if logits.ndim == 3 else ("p.log()", "")
            raise InputError(
                f"the model returns probabilities (its outputs of shape {tuple(logits.shape)} are at least 0 and sum "
                "to 1), and cross-entropy, which is taken where no loss= is given, expects logits: it would put a "
                "second softmax on them. Return the logits, or pass the loss that the network was trained with, such "
                f"as loss=lambda p, y: torch.nn.functional.nll_loss({log}, y, reduction='none'){mean}."
            )

    def fields(self, measured: dict[str, Any]) -> dict[str, Any]:
        """What was measured, without an accuracy of targets that stand beside the wrong logits."""
        return {name: value for name, value in measured.items() if self.counted or name not in COUNTED}


COUNTED = (
    "headline_acc", "headline_samples", "headline_answers", "headline_correct", "classes", "perplexity", "tokens",
)  # fmt: skip
"""What is counted from logits and targets."""

MOVED = (
    "the model moves its labels by one token, and loss= got them as they are: accuracy and perplexity are not counted. "
    "Leave loss= out, or give labels that are aligned with the logits that predict them."
)
LEFT_OUT = (
    "loss= leaves out {left_out} of {scored} targets of the first sequences that are not marked with −100 (target "
    "{target} at place {place}, for instance), as a loss does that ignores padding or moves its targets: accuracy and "
    "perplexity, which score every target as it is, are not counted. Mark what is not to be scored with −100."
)
NO_CLASSES = (
    "loss= is not smaller where the largest output is the target's than where it is another one's, so the outputs are "
    "not class scores: accuracy is not counted. Give it as headline_acc=, or another score as score=."
)
COPIED = (
    "the target of every token is that token itself, and the model has no loss of its own that would say otherwise: "
)


def with_loss(model: nn.Module, batches: Iterator[Batch], loss: Loss | None) -> tuple[LossTaken, Iterator[Batch]]:
    """The loss that is measured, found on the first batch, and all batches made ready for it."""
    first = next(batches)
    taken = loss_taken(model, first, loss)
    return taken, map(taken.ready, chain([first], batches))


def labels_needed(model: nn.Module, batch: Batch) -> Batch:
    """A batch as it was read, with the labels that the model cannot be called without; no loss is asked for."""
    keyword = label_keyword(model, batch)
    if keyword is None:
        return batch
    asked = Asked.of(model, look_at(batch), keyword)
    return LossTaken(keyword=keyword if asked.needed else None).ready(batch)


@torch.no_grad()
def loss_taken(model: nn.Module, batch: Batch, loss: Loss | None = None) -> LossTaken:
    """The caller's loss, or the per-sample loss that reproduces the model's own, or cross-entropy where it has none.

    A model whose own loss none of the candidates gives is refused, for every gradient would be of another loss.
    """
    given = _without_own(batch, loss)
    keyword = label_keyword(model, batch)
    look = look_at(batch)
    if keyword is None:
        indices = loss is not None and batch.targets.ndim < 3 and not batch.targets.is_floating_point()
        return _all_scored(given, look, tried(look.call, model)) if indices else given
    asked = Asked.of(model, look, keyword)
    taken = replace(given, keyword=keyword if asked.needed else None)
    if isinstance(asked.answer, Exception):
        if loss is None and not isinstance(asked.bare, Exception):
            raise BatchError(
                f"{_name(model)} takes {keyword}=, and failed when it was called with the targets of a batch: "
                f"{_brief(asked.answer)}. So its own loss is not known. {ASK}"
            ) from asked.answer
        return taken
    if asked.answer.loss is None:
        return taken
    if loss is not None:
        fits = Fits.of(model, look, keyword, asked.answer).remaining
        moved = [c.shifted for c in fits] == [True]
        taken = replace(taken, remark=MOVED if moved else "", counted=not moved)
        return _all_scored(taken, look, asked.answer.logits)
    padding = padding_of(model, look, keyword, batch.targets)
    return _reproduced(model, look, keyword, asked.answer, replace(taken, padding=padding))


def _without_own(batch: Batch, loss: Loss | None) -> LossTaken:
    """The caller's loss, or cross-entropy; with a remark where it looks as if targets had been meant to be moved."""
    copied = batch.targets.ndim == 2 and any(_is_copy(batch.targets, x) for x in batch.tensors())
    if loss is not None:
        remark = f"{COPIED}accuracy and perplexity, which take targets as they are, are not counted." if copied else ""
        return LossTaken(loss, "given as loss=", remark=remark, counted=not copied)
    remark = (
        f"{COPIED}this is the loss of copying. If the network predicts the next token, give the inputs without their "
        "last token, and the targets without their first."
    )
    return LossTaken(remark=remark if copied else "", presumed=True)


def _is_copy(targets: Tensor, inputs: Tensor) -> bool:
    """Whether every target that is scored is the input at its own place."""
    scored = targets != IGNORED
    return targets.shape == inputs.shape and bool(scored.any()) and bool((targets == inputs)[scored].all())


def _all_scored(taken: LossTaken, look: Batch, logits: Tensor | Exception) -> LossTaken:
    """Count no answers where a loss of the caller's is not one of classes, or leaves out tokens that are not marked."""
    loss, targets = taken.loss, look.targets
    if loss is None or not taken.counted or targets.ndim > 2 or targets.is_floating_point():
        return taken
    if not isinstance(logits, Tensor) or logits.shape[:-1] != targets.shape or not logits.is_floating_point():
        return taken
    if targets.ndim == 1:
        return _of_classes(taken, loss, logits, targets)
    try:
        with torch.enable_grad():
            error = error_at_logits(loss, logits, targets)
    except InputError:
        return taken  # the measuring pass says what is wrong
    left_out = (error == 0).all(dim=-1) & (targets != IGNORED)
    if not bool(left_out.any()):
        return taken
    sequence, place = left_out.nonzero()[0].tolist()
    remark = LEFT_OUT.format(
        left_out=int(left_out.sum()),
        scored=int((targets != IGNORED).sum()),
        target=int(targets[sequence, place]),
        place=place,
    )
    return replace(taken, remark=remark, counted=False)


def _of_classes(taken: LossTaken, loss: Loss, logits: Tensor, targets: Tensor) -> LossTaken:
    """Count no answers where outputs are embeddings, means and variances, or anything else than scores of classes."""
    if count_correct(logits, targets) is None or not bool(torch.isfinite(logits).all()):
        return taken
    try:
        classes = is_least_at_target(loss, logits, targets)
    except InputError:
        return taken  # the measuring pass says what is wrong
    return taken if classes else replace(taken, remark=NO_CLASSES, counted=False)


def _reproduced(model: nn.Module, look: Batch, keyword: str, answer: Answer, taken: LossTaken) -> LossTaken:
    """The one candidate that gives the model's loss; a diverged network's cannot be compared, nor need it be."""
    assert answer.loss is not None
    if not bool(torch.isfinite(answer.loss)):
        if bool(torch.isfinite(answer.logits).all()):
            raise InputError(
                f"{_name(model)} gives its own loss as {float(answer.loss)} for the first samples, though its logits "
                f"are finite. Are there targets to score? Begin with a batch that has some (not {IGNORED}), or pass "
                "loss=."
            )
        words = "cross-entropy; the model's own cannot be compared, as it is not finite"
        return replace(taken, words=words, remark="", counted=answer.logits.ndim != 3)
    fits = Fits.of(model, look, keyword, answer, taken.padding)
    if len(fits.remaining) != 1:
        raise InputError(_refusal(model, look, keyword, answer, fits))
    (candidate,) = fits.remaining
    passed = f"; {keyword}= goes into every call" if taken.keyword is not None else ""
    passed += f"; targets of {taken.padding} are not scored" if taken.padding is not None else ""
    words = f"the model's own, {candidate.words}, reproduced to {fits.misfits[candidate]:.0e}{passed}"
    return replace(taken, loss=candidate.loss, shifted=candidate.shifted, words=words, remark="", presumed=False)


def _refusal(model: nn.Module, look: Batch, keyword: str, answer: Answer, fits: Fits) -> str:
    values = {c.words: c.value(answer.logits, look.targets) for c in CANDIDATES}
    listed = "; ".join(f"{words}: {value:.6g}" for words, value in values.items() if value is not None)
    own = f"{_name(model)} called with {keyword}= gives a loss of {float(answer.loss or 0):.6g}"
    shapes = f"logits of shape {tuple(answer.logits.shape)}, {look.targets.dtype} targets {tuple(look.targets.shape)}"
    if not listed:
        return f"{own}, and nothing that walkback knows fits its {shapes}. {ASK}"
    if len(fits.remaining) > 1:
        return f"{own}, and more than one loss gives it: {listed}. walkback cannot tell which one it is. {ASK}"
    return (
        f"{own}, which none of these reproduces on all targets tried ({shapes}): {listed}. It may hold label "
        f"smoothing, class weights, an auxiliary loss, or a prompt's tokens. {ASK}"
    )


def _name(model: nn.Module) -> str:
    return type(model).__name__


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
