"""The first samples of a network in fp64: its sites, and the logits behind any of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from walkback.errors import InputError
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture, capture
from walkback.jax.numbers import Doubles, doubles
from walkback.jax.precision import host, in_double, x64
from walkback.jax.program import Program, compiled, program_of, ran
from walkback.jax.through import Kinds, coarsest_inside, draws_random_numbers, has_steps
from walkback.protocol.reduction import TokenReduction

SAME_IN_DOUBLE, SAME_IN_SINGLE = 1e-6, 1e-3
"""Up to which share of their size two ways to compute the same logits may lie apart."""
VALUES_AT_ONCE = 2**18
"""How many values of moved states go through the network at a time."""


@dataclass(frozen=True)
class Doubled:
    """A network and a few samples in fp64, or in its own precision where it has no fp64."""

    program: Program
    params: Any
    batch: Batch
    exact: bool = True

    @classmethod
    def of(cls, program: Program, params: Any, batch: Batch, exact: bool = True) -> Doubled:
        """Parameters and inputs, converted."""
        if not exact:
            return cls(program, params, batch, False)
        with x64():
            return cls(program, in_double(params), Batch(in_double(batch.inputs), batch.targets))

    def precision(self) -> AbstractContextManager[None]:
        """The context in which it runs."""
        return x64() if self.exact else nullcontext()

    def seen(self, through: Kinds) -> Capture:
        """One pass with its gradients, declared derivatives of these kinds seen through."""
        program = program_of(self.program.network, self.program.loss, through)
        with self.precision():
            return capture(program, self.params, self.batch, TokenReduction.FLATTEN)

    def stream(self) -> tuple[Any, tuple[Any, ...]]:
        """Logits and sites of one pass without gradients."""
        with self.precision():
            logits, hiddens = ran(lambda: self.program.stream(self.params, self.batch.inputs))
        return logits, hiddens

    def require_exact(self) -> Doubles:
        """The logits; refused where something that should be fp64 is not."""
        logits, hiddens = self.stream()
        lower = {str(each.dtype) for each in (logits, *hiddens) if each.dtype != np.float64}
        if self.exact and lower:
            raise InputError(f"sites or logits are {', '.join(sorted(lower))} whatever the parameters are in")
        return doubles(host(logits))

    @cached_property
    def jaxpr(self) -> Any:
        """What the network computes here, as it is declared."""
        with self.precision():
            return self.program.jaxpr(self.params, self.batch.inputs)

    @property
    def steps(self) -> bool:
        """Whether something in it jumps."""
        return has_steps(self.jaxpr)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return draws_random_numbers(self.jaxpr)

    @property
    def coarsest(self) -> Any:
        """The lowest precision that values are rounded to inside; None where they never are."""
        return coarsest_inside(self.jaxpr) if self.exact else None

    def logits_of_each(self, site: int, several: Sequence[Doubles]) -> list[Doubles]:
        """The logits where a site holds other values, each (B, …), of the first B samples."""
        size = len(several[0])
        at_once = max(1, VALUES_AT_ONCE // max(1, several[0].size))
        some, found = self.batch.first(size), []
        for start in range(0, len(several), at_once):
            part = several[start : start + at_once]
            logits = self._behind(site, some.repeated(len(part)), np.concatenate(part))
            found += np.split(logits, len(part))
        return found

    def _behind(self, site: int, inputs: Any, values: Doubles) -> Doubles:
        with self.precision():
            return doubles(host(self.program.rest(self.params, inputs, {site: values})))

    def leak(self) -> float:
        """The largest gradient that the last sample's logits send to h_0 of another sample."""
        with self.precision():
            grads = ran(lambda: self.program.reached(self.params, self.batch.inputs))
        others = doubles(grads[0])[:-1]
        return float(np.abs(np.nan_to_num(others)).max(initial=0.0))

    def check_composition(self, apply: Any, logits: Doubles) -> None:
        """Refuse blocks whose composition gives other logits than `apply` does."""
        with self.precision():
            own = doubles(ran(lambda: compiled(apply)(self.params, self.batch.inputs)))
        apart = apart_by(own, logits, SAME_IN_DOUBLE if self.exact else SAME_IN_SINGLE)
        if apart:
            raise InputError(
                f"stem, blocks and head do not compute what apply does: {apart}. Expected the same network twice: "
                "apply as a whole, and its parts in their order, with nothing left out between them."
            )


def apart_by(one: Doubles, other: Doubles, tolerance: float) -> str:
    """How two arrays differ by more than rounding, in words; empty where they do not."""
    if one.shape != other.shape:
        return f"logits of shape {one.shape} and {other.shape}"
    size = float(np.nanmax(np.abs(one), initial=0.0))
    same = np.isnan(one) & np.isnan(other) | (one == other)
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.abs(one - other))
    off = np.where(np.isnan(off), np.inf, off)
    worst = float(off.max(initial=0.0))
    return "" if worst <= tolerance * size else f"logits differ by up to {worst:.3g}, where they are up to {size:.3g}"
