"""The accuracy of a network, counted on labelled batches, with which samples it answers correctly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BatchError
from walkback.protocol.batches import read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.losses import Answers, Loss, count_correct, right_of_each
from walkback.protocol.own_loss import with_loss
from walkback.protocol.pairing import Answered
from walkback.protocol.scores import Score
from walkback.protocol.untouched import underneath, untouched


def accuracy(
    model: nn.Module, batches: Iterable[Any], calling: Calling | None = None, loss: Loss | None = None
) -> Score:
    """The share of right predictions on labelled batches; the model is left as it was."""
    plain = underneath(model)
    counted, each = Answers(0, 0, 0), list[tuple[Tensor, Tensor] | None]()
    with untouched(plain), torch.no_grad():
        taken, ready = with_loss(plain, read_batches(batches, plain, calling=calling), loss)
        for batch in ready:
            logits = batch.call(plain)
            answers = count_correct(logits, batch.targets) if taken.counted else None
            each.append(right_of_each(logits, batch.targets))
            if answers is None:
                why = taken.remark or "accuracy needs class indices as targets, and an output for each class."
                raise BatchError(
                    f"{why} For a baseline, return walkback.Score(…) from train_fn, with its own unit= if it is "
                    "not an accuracy."
                )
            counted = counted.plus(answers)
    score = counted.score()
    if score is None:
        raise BatchError("every target of eval_batches is marked as not to be scored (−100), so there is no accuracy.")
    return score.model_copy(update={"correct": _answered(each)})


def _answered(parts: Sequence[tuple[Tensor, Tensor] | None]) -> Answered | None:
    """Which samples were answered rightly; None where samples have no one class."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    right, labels = (torch.cat(column).numpy() for column in zip(*known, strict=True))
    return Answered.of(right, labels)
