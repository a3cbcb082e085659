"""Refuse a model whose samples influence each other: its per-sample figures would mean nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm

from walkback.errors import InputError, NoGradient
from walkback.protocol.batches import Batch
from walkback.protocol.calls import Watched, is_quantised
from walkback.protocol.flow import Value
from walkback.protocol.seen_through import Sight
from walkback.protocol.site_reader import SiteReader, despite_changes_in_place
from walkback.protocol.sites import Blocks, Chain, Parts, find_and_watch, samples_first

REMEDY = "Give it running statistics, or measure one sample at a time."


def chain_of_independent(
    model: nn.Module, batch: Batch, blocks: Blocks | Parts = None, gradients: bool = True
) -> Chain:
    """The chain of blocks, found in one watched pass over a few samples that do not influence each other.

    Without gradients, samples that influence each other are not noticed, and quantised networks have blocks too.
    """
    _check_modules(model, gradients)
    # Samples may meet in a backward pass of the network's own that do not in what it computes.
    return Sight().run(lambda: _chain(model, batch, blocks, gradients))


def _chain(model: nn.Module, batch: Batch, blocks: Blocks | Parts, gradients: bool) -> Chain:
    chain, watched, first = find_and_watch(model, batch, blocks)
    leak = _leak_between_samples(model, chain, batch, watched, first) if batch.size > 1 and gradients else 0.0
    if leak > 0:
        raise InputError(
            f"the logits of one sample depend on '{chain.taps[0]}' of another (gradient {leak:.1e}, expected 0), "
            "so per-sample gradients mean nothing. Is the batch on the axis that the model expects (batch_first)?"
        )
    return chain


def _check_modules(model: nn.Module, gradients: bool) -> None:
    for name, module in model.named_modules():
        if gradients and is_quantised(module):
            raise InputError(
                f"{name or 'the model'} is a quantised {type(module).__name__}: its weights are integers, and no "
                "gradient passes through it. Pass gradients=False for (a) and accuracy alone, or diagnose the "
                "floating-point model that it was made from."
            )
        if isinstance(module, _NormBase) and not isinstance(module, _InstanceNorm) and module.running_mean is None:
            raise InputError(
                f"{name or 'the model'} is a {type(module).__name__} without running statistics: in eval mode each "
                "sample's output depends on the others in its batch, so per-sample gradients mean nothing. "
                f"{REMEDY}"
            )


def _leak_between_samples(model: nn.Module, chain: Chain, batch: Batch, watched: Watched, first: Value) -> float:
    """The largest gradient that the last sample's logits send to another sample's h_0.

    The last, because under a causal mask over the wrong axis the first depends on itself alone.
    """
    if watched.logits.shape[:1] != (batch.size,):
        return 0.0  # the measuring pass says what is wrong, in its own words
    grad = _grad_in_watched(watched, first)
    if grad is None:
        grad = despite_changes_in_place(lambda: _grad_in_own_pass(model, chain, batch))
    if grad is None:
        return 0.0
    others: Tensor = samples_first(grad, chain.taps[0], batch.size)[:-1]
    return float(torch.nan_to_num(others.float()).abs().max())


def _grad_in_watched(watched: Watched, stream: Value) -> Tensor | None:
    """∂(the last sample's logits)/∂h_0 by the graph of the watched pass; None where that graph cannot give it."""
    logits = watched.logits
    if stream.node is None or not logits.requires_grad or _has_functions_of_its_own(watched):
        return None
    edge = torch.autograd.graph.GradientEdge(stream.node, stream.output)
    try:
        (grad,) = torch.autograd.grad(logits, edge, _last_alone(logits), allow_unused=True)
    except RuntimeError:
        # Changed in place, or computed again by activation checkpointing, which needs a pass of its own.
        return None
    return grad


def _has_functions_of_its_own(watched: Watched) -> bool:
    """Whether there are autograd functions written in Python: they would compute parameter gradients too here."""
    return any(isinstance(node, BackwardCFunction) for node in _graph(watched.logits.grad_fn))


def _graph(node: Any) -> set[Any]:
    """Every node of the autograd graph that this one is computed from, itself included."""
    seen: set[Any] = set()
    frontier = [node]
    while frontier:
        at = frontier.pop()
        if at is not None and at not in seen:
            seen.add(at)
            frontier.extend(parent for parent, _ in at.next_functions)
    return seen


def _grad_in_own_pass(model: nn.Module, chain: Chain, batch: Batch) -> Tensor | None:
    """The same by a pass whose graph begins at h_0."""
    reader = SiteReader(chain)
    with reader.attached():
        try:
            logits = batch.call(model, chain.changes_input)
        except NoGradient:
            return None  # the measuring pass says where
        if not reader.values or not logits.requires_grad:
            return None
        reader.pull_back(logits, _last_alone(logits))
    return reader.grads.get(0)


def _last_alone(logits: Tensor) -> Tensor:
    pick = torch.zeros_like(logits)
    pick[-1] = 1
    return pick
