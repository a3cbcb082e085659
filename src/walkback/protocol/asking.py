"""A model asked with labels and without: what it gives for a few samples, and the loss that it returns itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from walkback.protocol.batches import TARGET_KEYS, Batch
from walkback.protocol.losses import IGNORED
from walkback.protocol.outputs import logits_beside_loss, own_loss_of

LOOK_SAMPLES = 4
"""How many samples a model is asked about."""


def label_keyword(model: nn.Module, batch: Batch) -> str | None:
    """The argument by which a model's forward takes labels; None where it has none, or the caller fills it already."""
    given = {*batch.calling.forward_kwargs, *(batch.inputs if isinstance(batch.inputs, Mapping) else ())}
    keyword = _keyword(model) or _asked_for(model, batch)
    return None if keyword in given else keyword


def _keyword(module: nn.Module) -> str | None:
    """By the signature; of a wrapper that hands on what it gets, such as PEFT's, by that of what it wraps."""
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return None
    named = next((key for key in TARGET_KEYS if key in parameters), None)
    if named is not None or not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return named
    inner = [child for child in module.children() if next(child.parameters(), None) is not None]
    return _keyword(inner[0]) if len(inner) == 1 else None


def _asked_for(model: nn.Module, batch: Batch) -> str | None:
    """The argument, whatever its name, for which the model returns a loss when it is given the targets."""
    left_open = _left_open(model, batch)
    if not left_open:
        return None
    look = look_at(batch)
    bare = tried(lambda: own_loss_of(look.calling.output(model, look.copied()[0])))
    if isinstance(bare, Tensor):
        return None  # a number comes without labels too
    answers = ((name, tried(answer_of, model, look, {name: look.targets})) for name in left_open)
    return next((name for name, answer in answers if isinstance(answer, Answer) and answer.loss is not None), None)


def _left_open(model: nn.Module, batch: Batch) -> list[str]:
    """The arguments of forward that a batch does not fill, and that have no value of their own."""
    inputs, named = batch.inputs, {**batch.calling.forward_kwargs}
    args = (inputs if isinstance(inputs, tuple) else (inputs,)) if not isinstance(inputs, Mapping) else ()
    named |= inputs if isinstance(inputs, Mapping) else {}
    try:
        signature = inspect.signature(model.forward)
        filled = signature.bind_partial(*args, **named).arguments
    except (TypeError, ValueError):
        return []
    takes_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    free = [p for name, p in signature.parameters.items() if name not in filled and p.kind in takes_name]
    return [p.name for p in free if p.default is None or p.default is p.empty]


class Answer(NamedTuple):
    """What a model gives when it is called with labels."""

    logits: Tensor
    loss: Tensor | None


class Asked(NamedTuple):
    """What a model gives without labels and with them; an error where a call fails."""

    bare: Tensor | Exception
    answer: Answer | Exception

    @classmethod
    def of(cls, model: nn.Module, look: Batch, keyword: str) -> Asked:
        """Ask twice."""
        return cls(tried(look.call, model), tried(answer_of, model, look, {keyword: look.targets}))

    @property
    def needed(self) -> bool:
        """Whether every call needs labels: without them it fails, or gives other logits than those of the loss."""
        if isinstance(self.answer, Exception):
            return False
        if isinstance(self.bare, Exception):
            return True
        bare, logits = self.bare, self.answer.logits
        return self.answer.loss is not None and (bare.shape != logits.shape or not _alike(bare, logits))


def _alike(bare: Tensor, logits: Tensor) -> bool:
    reach = tolerance(logits.dtype)
    return torch.allclose(bare.double(), logits.double(), reach, reach, equal_nan=True)


def tried(call: Any, *args: Any) -> Any:
    """What a call gives without building a graph, or the error that it ends in."""
    try:
        with torch.no_grad():
            return call(*args)
    except Exception as error:  # whatever a model raises without its labels, or with them
        return error


def answer_of(model: nn.Module, look: Batch, labels: Mapping[str, Tensor]) -> Answer:
    """The model's logits and its own loss for labels by name."""
    inputs, named = replace(look, labels=labels).copied()
    output = look.calling.output(model, inputs, named)
    return Answer(logits_beside_loss(output, look.calling.logits), own_loss_of(output))


def look_at(batch: Batch) -> Batch:
    """A few samples, of which the first has a target to score behind its first token."""
    scored = (batch.targets != IGNORED).reshape(batch.size, -1)
    behind = scored[:, 1:] if scored.shape[1] > 1 else scored
    start = min(int(behind.any(dim=1).int().argmax()), max(batch.size - LOOK_SAMPLES, 0))
    if start == 0:
        return batch.first(min(LOOK_SAMPLES, batch.size))
    return batch.some(start, min(LOOK_SAMPLES, batch.size))


def coarser(answer: Answer) -> torch.dtype:
    """The dtype, of logits and loss, that rounds more."""
    assert answer.loss is not None
    return max(answer.logits.dtype, answer.loss.dtype, key=lambda dtype: torch.finfo(dtype).eps)


def tolerance(dtype: torch.dtype) -> float:
    """How far the same loss may be off by rounding alone, relative to its size."""
    return 1e-2 if dtype.itemsize <= 2 else 1e-4


def rounding(answer: Answer) -> float:
    """What rounding makes of a loss near zero: the logits' last digits."""
    finite = answer.logits[answer.logits.isfinite()]
    return 2 * torch.finfo(coarser(answer)).eps * max(1.0, float(finite.abs().max()) if finite.numel() else 1.0)
