"""The same network with its parameters of before training: how far they moved, and how much the stream grew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from walkback.errors import InputError
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture, capture_stream
from walkback.jax.dependence import parts_of
from walkback.jax.numbers import Doubles, doubles, norms
from walkback.jax.precision import is_floating, refuse_tracers
from walkback.jax.program import Program
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sizes import INITIAL_SAMPLES
from walkback.protocol.uncertainty import medians_with_intervals


def check_initial(initial: Any, params: Any, what: str = "initial=") -> None:
    """Refuse parameters of another network."""
    refuse_tracers(what, initial)
    if jax.tree.structure(initial) != jax.tree.structure(params):
        raise InputError(f"{what} is of another network: its tree has another structure than params.")
    there, here = jax.tree_util.tree_leaves_with_path(initial), jax.tree.leaves(params)
    for (path, before), now in zip(there, here, strict=True):
        if np.shape(before) != np.shape(now):
            raise InputError(
                f"{what} is of another network: {jax.tree_util.keystr(path)} has the shape {np.shape(before)} there, "
                f"and {np.shape(now)} in params. Give the parameters of this network."
            )


def check_finite(initial: Any) -> None:
    """Refuse parameters that no training begins with."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(initial):
        if is_floating(leaf) and not np.isfinite(doubles(leaf)).all():
            raise InputError(
                f"initial= holds NaN or Inf in {jax.tree_util.keystr(path)}, and no training begins there. Give the "
                "parameters that this network began with."
            )


class InitialMeter:
    """The first samples with the parameters of now and with those of before training."""

    def __init__(self, initial: Any) -> None:
        self.initial = initial
        self.kept: list[tuple[Batch, Doubles]] = []
        self.samples = 0

    def keep(self, batch: Batch, seen: Capture) -> None:
        """Take the first samples, and the norms of their stream."""
        room = INITIAL_SAMPLES - self.samples
        if room > 0:
            some = batch.first(min(room, batch.size))
            self.kept.append((some, seen.stream_norms[:, : some.size]))
            self.samples += some.size

    def fields(self, program: Program, params: Any) -> dict[str, Any]:
        """Growth at every site and movement of every part, as fields of `Measurements`."""
        moved = movement(program, params, self.initial, self.kept[0][0])
        before = [
            capture_stream(program, self.initial, batch, TokenReduction.FLATTEN).stream_norms for batch, _ in self.kept
        ]
        start, now = np.concatenate(before, axis=1), np.concatenate([each for _, each in self.kept], axis=1)
        empty = np.flatnonzero((start == 0).any(axis=1))
        if len(empty) or not np.isfinite(start).all():
            why = f"‖h_{empty[0]}‖ is 0" if len(empty) else "the stream is not finite"
            return moved | {"no_initial": f"With the initial weights {why}, so nothing has grown from it."}
        medians, intervals = medians_with_intervals(now / start)
        return moved | {"growth_from_init": medians, "growth_from_init_intervals": intervals}


def movement(program: Program, params: Any, initial: Any, batch: Batch) -> dict[str, Any]:
    """‖W − W_0‖ / ‖W_0‖ over the parameters of the stem, of each block, and of what comes behind, in fp64."""
    now, start = jax.tree.leaves(params), jax.tree.leaves(initial)
    stem, blocks, head = parts_of(program, params, batch)

    def moved(part: Iterable[tuple[int, Any]]) -> float:
        return _moved([(doubles(now[leaf])[where], doubles(start[leaf])[where]) for leaf, where in part])

    found: dict[str, Any] = {
        "moved_blocks": tuple(program.network.names[number] for number, part in enumerate(blocks) if part),
        "block_movement": tuple(moved(part) for part in blocks if part),
    }
    if not found["moved_blocks"]:
        del found["block_movement"]
    found |= {"stem_movement": moved(stem)} if stem else {}
    return found | ({"head_movement": moved(head)} if head else {})


def _moved(pairs: list[tuple[Doubles, Doubles]]) -> float:
    """Relative to W_0; to W where W_0 is zero, which then has moved by all of it."""
    by = ([now - before for now, before in pairs], [before for _, before in pairs], [now for now, _ in pairs])
    moved, size, here = (float(norms(np.concatenate([each.ravel() for each in part]))) for part in by)
    return moved / size if size else (moved / here if here else 0.0)
