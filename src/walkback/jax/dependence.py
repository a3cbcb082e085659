"""Which parameters lie in which part of a network: read off what it computes, not off their names.

A parameter is a block's where the block reads it: where h_l depends on it with h_{l−1} held fixed. One array that holds
the weights of all blocks, one below the other, is taken apart along its first axis.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from walkback.errors import InputError
from walkback.jax.batches import Batch
from walkback.jax.numbers import doubles
from walkback.jax.precision import is_floating
from walkback.jax.program import Program
from walkback.jax.through import PRIMITIVES
from walkback.protocol.sizes import LOOK_SAMPLES

Part = list[tuple[int, Any]]
"""Leaves by their place, each with the part of it that counts."""


def parts_of(program: Program, params: Any, batch: Batch) -> tuple[Part, list[Part], Part]:
    """The parameters of the stem, of each block and of the head."""
    few = batch.first(min(LOOK_SAMPLES, batch.size))
    reads = _reads(program, params, few)
    blocks = reads[1:-1]
    everywhere = slice(None)
    inside = {leaf for block in blocks for leaf in block}
    several = {leaf for leaf in inside if sum(leaf in block for block in blocks) > 1}
    rows = _rows_read(program, params, few, several) if several else {}
    found = [
        [(leaf, rows[leaf][number] if leaf in rows else everywhere) for leaf in sorted(block)]
        for number, block in enumerate(blocks)
    ]
    stem = [(leaf, everywhere) for leaf in sorted(reads[0] - inside)]
    head = [(leaf, everywhere) for leaf in sorted(reads[-1] - inside - reads[0])]
    return stem, found, head


def _reads(program: Program, params: Any, few: Batch) -> list[set[int]]:
    """The floating-point leaves that the stem, each block and the head read."""
    leaves, tree = jax.tree.flatten(params)
    floating = [place for place, leaf in enumerate(leaves) if is_floating(leaf)]
    _, hiddens = program.stream(params, few.inputs)
    found = []
    for stage in range(len(hiddens) + 1):
        held = {stage - 1: hiddens[stage - 1]} if stage else {}
        jaxpr = jax.make_jaxpr(partial(_output, program, tree, few, held, stage))(leaves).jaxpr
        found.append({place for place in floating if _reaches(jaxpr, {jaxpr.invars[place]})})
    return found


def _output(program: Program, tree: Any, few: Batch, held: dict[int, Any], stage: int, leaves: list[Any]) -> Any:
    """What a stage computes, with the site before it held fixed."""
    logits, hiddens = program.network.run(jax.tree.unflatten(tree, leaves), few.inputs, {}, held)
    return hiddens[stage] if stage < len(hiddens) else logits


def unread(program: Program, params: Any, batch: Batch) -> tuple[str, ...]:
    """The floating-point leaves that the logits do not depend on; refused where that is all of them.

    What functions read elsewhere was compiled as it was when they were first called.
    """
    read = _read(program.found(params, batch.inputs).jaxpr, {0})
    leaves = jax.tree_util.tree_leaves_with_path(params)
    floating = [(place, jax.tree_util.keystr(path)) for place, (path, leaf) in enumerate(leaves) if is_floating(leaf)]
    idle = tuple(name for place, name in floating if place not in read)
    if len(idle) == len(floating):
        raise InputError(
            f"nothing of params ({len(idle)} arrays of floating-point numbers) reaches the logits: the functions take "
            "their weights from elsewhere, so that later changes of them would not be measured. Expected functions of "
            "(params, h) that read their weights from params. For a model made of modules, see "
            "walkback.jax.equinox_sites and nnx_sites."
        )
    return idle


def _read(jaxpr: Any, wanted: set[int]) -> set[int]:
    """Which inputs some outputs are computed from; what a declared derivative takes counts as read."""
    needed = {var for place, var in enumerate(jaxpr.outvars) if place in wanted and _hashable(var)}
    for eqn in reversed(jaxpr.eqns):
        used = {place for place, var in enumerate(eqn.outvars) if var in needed}
        if not used:
            continue
        inner = None if PRIMITIVES.get(eqn.primitive.name) else _called(eqn)
        places = range(len(eqn.invars)) if inner is None else _read(inner, used)
        needed.update(eqn.invars[place] for place in places if _hashable(eqn.invars[place]))
    return {place for place, var in enumerate(jaxpr.invars) if var in needed}


def _reaches(jaxpr: Any, marked: set[Any]) -> list[int]:
    """Which outputs depend on marked variables; inner functions are looked into where all of their inputs line up."""
    for eqn in jaxpr.eqns:
        touched = [place for place, var in enumerate(eqn.invars) if _hashable(var) and var in marked]
        if not touched:
            continue
        inner = _called(eqn)
        if inner is None:
            marked.update(eqn.outvars)
        else:
            out = _reaches(inner, {inner.invars[place] for place in touched})
            marked.update(eqn.outvars[place] for place in out)
    return [place for place, var in enumerate(jaxpr.outvars) if _hashable(var) and var in marked]


def _called(eqn: Any) -> Any:
    """The function behind a plain call."""
    if eqn.primitive.name not in ("pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call"):
        return None
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    inner = getattr(inner, "jaxpr", inner)
    return inner if inner is not None and len(inner.invars) == len(eqn.invars) else None


def _hashable(var: Any) -> bool:
    return not hasattr(var, "val")


def _rows_read(program: Program, params: Any, few: Batch, several: set[int]) -> dict[int, list[Any]]:
    """Of leaves that several blocks read: the row that each reads, where each reads one and no other."""
    leaves, tree = jax.tree.flatten(params)
    _, hiddens = program.stream(params, few.inputs)
    found = {}
    for place in several:
        if np.ndim(leaves[place]) < 2:
            continue
        rows = [_rows_of(program, leaves, tree, few, hiddens, number, place) for number in range(1, len(hiddens))]
        read = [each for each in rows if len(each)]
        if all(len(each) == 1 for each in read) and len({int(each[0]) for each in read}) == len(read):
            found[place] = [each if len(each) else slice(0, 0) for each in rows]
    return found


def _rows_of(
    program: Program, leaves: list[Any], tree: Any, few: Batch, hiddens: tuple[Any, ...], number: int, place: int
) -> Any:
    """The rows of a leaf that a block's output has a gradient to."""

    def total(leaf: Any) -> Any:
        given = [*leaves[:place], leaf, *leaves[place + 1 :]]
        out = _output(program, tree, few, {number - 1: hiddens[number - 1]}, number, given)
        return (out * jnp.cos(jnp.arange(out.size)).reshape(out.shape)).sum()

    grad = doubles(jax.grad(total)(leaves[place]))
    return np.flatnonzero((grad != 0).reshape(len(grad), -1).any(axis=1))
