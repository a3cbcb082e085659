"""The matched frozen baseline for (d): the caller's own training, with the blocks left at random init."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from walkback.errors import BaselineError, BatchError
from walkback.protocol.batches import read_batches
from walkback.protocol.losses import count_correct
from walkback.protocol.records import FrozenBaseline, Score
from walkback.protocol.sites import Blocks, find_chain
from walkback.protocol.untouched import underneath, untouched

TrainFunction = Callable[..., Any]
"""train_fn(model, **config) trains the model in place; it may return its score in [0, 1], or a `Score`."""


def frozen_baseline(
    train_fn: TrainFunction,
    make_model: Callable[[], nn.Module],
    eval_batches: Iterable[Any],
    *,
    seed: int | None = None,
    config: Mapping[str, Any] | None = None,
    blocks: Blocks = None,
) -> FrozenBaseline:
    """Train the caller's model again with its blocks frozen, and return the score that (d) compares with.

    The seed is set, `make_model()` builds the model, its blocks stop requiring gradients (embedding and
    head still learn), and `train_fn(model, **config)` runs as it does for the real thing. Where it returns
    no score, the accuracy on `eval_batches` is taken. Frozen parameters that moved are an error: a rule
    that writes to parameters directly must skip those with `requires_grad=False`.
    """
    batches = list(eval_batches)
    settings = dict(config or {})
    if seed is not None:
        torch.manual_seed(seed)
    model = make_model()
    names, frozen = freeze_blocks(model, batches, blocks)
    before = {name: parameter.detach().clone() for name, parameter in frozen.items()}
    result = train_fn(model, **settings)
    _check_still(before, frozen)
    score = _score(result, model, batches)
    return FrozenBaseline(
        accuracy=score.value,
        samples=score.samples,
        seed=seed,
        config=settings,
        frozen_blocks=names,
    )


def freeze_blocks(
    model: nn.Module, batches: Iterable[Any], blocks: Blocks = None
) -> tuple[tuple[str, ...], dict[str, nn.Parameter]]:
    """Stop the blocks' parameters from requiring gradients; the blocks' names, and those parameters by name."""
    plain = underneath(model)
    with untouched(plain):
        first = next(read_batches(batches, plain))
        chain = find_chain(plain, first.first(min(4, first.size)), blocks)
    names = tuple(dict.fromkeys(chain.blocks))
    named = {
        f"{block}.{name}": parameter
        for block in names
        for name, parameter in plain.get_submodule(block).named_parameters()
    }
    inside = set(named.values())
    if not any(p.requires_grad for p in plain.parameters() if p not in inside):
        raise BaselineError(
            f"every trainable parameter of {type(plain).__name__} lies in its blocks ({chain.pattern}), so nothing is "
            "left to train once they are frozen. Pass blocks= without the embedding and the head."
        )
    for parameter in inside:
        parameter.requires_grad_(False)
    return names, named


def _check_still(before: Mapping[str, torch.Tensor], frozen: Mapping[str, nn.Parameter]) -> None:
    moved = [name for name, value in before.items() if not torch.equal(value, frozen[name].detach())]
    if moved:
        raise BaselineError(
            f"train_fn changed {len(moved)} of {len(before)} frozen parameters ({moved[0]} first), so this is no "
            "frozen baseline. Let it skip parameters whose requires_grad is False."
        )


def _score(result: Any, model: nn.Module, batches: Iterable[Any]) -> Score:
    if isinstance(result, Score):
        return result
    if isinstance(result, int | float) and not isinstance(result, bool):
        return Score(value=result)
    if result is not None:
        raise BaselineError(
            f"train_fn returned {type(result).__name__}; expected its score in [0, 1], a walkback.Score, or None to "
            "have the accuracy counted on eval_batches."
        )
    return accuracy(model, batches)


def accuracy(model: nn.Module, batches: Iterable[Any]) -> Score:
    """The share of right predictions on labelled batches; the model is left as it was."""
    plain = underneath(model)
    correct = scored = 0
    with untouched(plain), torch.no_grad():
        for batch in read_batches(batches, plain):
            counts = count_correct(batch.call(plain), batch.targets)
            if counts is None:
                raise BatchError(
                    "accuracy needs class indices as targets; return the score from train_fn, or pass headline_acc."
                )
            correct, scored = correct + counts[0], scored + counts[1]
    return Score(value=correct / max(scored, 1), samples=scored or None)
