"""Batches cut into smaller ones, or joined to larger ones: no figure depends on how samples are batched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn

from walkback.errors import BatchError, WalkbackError
from walkback.protocol.batches import Batch

LOOK_SAMPLES = 4
"""How many samples the passes that only look at the structure use."""

Result = TypeVar("Result")


def on_few(model: nn.Module, batch: Batch, look: Callable[[Batch], Result]) -> Result:
    """Look at a model with the first samples of a batch; one that takes no other number of them is refused."""
    few = batch.first(min(LOOK_SAMPLES, batch.size))
    try:
        return look(few)
    except WalkbackError:
        raise
    except Exception as error:  # whatever a model raises
        if few.size == batch.size or not _takes(model, batch):
            raise
        raise BatchError(
            f"the model takes a batch of {batch.size} samples, and fails on {few.size} of them "
            f"({type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}). Batches are cut and "
            "joined here, so it must take any number of samples. Let forward take the number from its input, such as "
            "len(x); where the model keeps a state from batch to batch, reset it before."
        ) from error


def _takes(model: nn.Module, batch: Batch) -> bool:
    try:
        with torch.no_grad():
            batch.call(model)
    except Exception:  # then its size is not what is wrong
        return False
    return True


def in_pieces(batches: Iterable[Batch], most: int | None) -> Iterator[Batch]:
    """Batches of at most that many samples: larger ones are cut. No figure depends on how samples are batched."""
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise BatchError(f"micro_batch is {most!r}; expected how many samples to measure at once, 1 or more.")
    for batch in batches:
        if most is None or batch.size <= most:
            yield batch
        else:
            yield from _cut(batch, most)


def _cut(batch: Batch, most: int) -> Iterator[Batch]:
    if any(x.ndim > 1 and x.shape[0] == x.shape[1] == batch.size for x in batch.tensors()):
        raise BatchError(
            f"an input has two axes of {batch.size}, as many as there are samples, so micro_batch cannot tell which to "
            "cut. Give smaller batches instead."
        )
    for start in range(0, batch.size, most):
        yield batch.some(start, min(most, batch.size - start))


def joined(batches: Iterable[Batch], most: int) -> Iterator[Batch]:
    """Consecutive batches as one, up to that many samples, where one tensor each can hold them.

    No figure depends on how samples are batched, and fewer, larger passes take less time. A joined batch is good
    until the next one is asked for: its inputs are written over.
    """
    waiting: list[Batch] = []
    space: list[Tensor] = []
    for batch in batches:
        if waiting and (sum(b.size for b in waiting) + batch.size > most or not _alike(waiting[0], batch)):
            yield _as_one(waiting, space)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield _as_one(waiting, space)


def _alike(first: Batch, other: Batch) -> bool:
    """Whether both are plain tensors with one row per sample, of one shape."""
    a, b = first.inputs, other.inputs
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or len(a) != first.size or first.labels:
        return False
    return (a.shape, a.dtype, first.targets.shape) == (b.shape, b.dtype, other.targets.shape)


def _as_one(batches: list[Batch], space: list[Tensor]) -> Batch:
    """The batches joined, in space that is kept: to come by fresh memory takes longer than to copy into it."""
    if len(batches) == 1:
        return batches[0]
    rows, example = sum(b.size for b in batches), batches[0].inputs
    if not space or space[0].shape[1:] != example.shape[1:] or len(space[0]) < rows or space[0].dtype != example.dtype:
        space[:] = [example.new_empty((rows, *example.shape[1:]))]
    inputs = torch.cat([b.inputs for b in batches], out=space[0][:rows])
    return Batch(inputs, torch.cat([b.targets for b in batches]), batches[0].calling)
