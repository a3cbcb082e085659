"""The first samples of a network in fp64: its sites, and the logits behind any of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from walkback.errors import InputError
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture, capture, captured, targets_for
from walkback.jax.network import Stage
from walkback.jax.numbers import Doubles, doubles
from walkback.jax.precision import host, in_double, x64
from walkback.jax.program import Program, program_of, ran
from walkback.jax.through import Found, Kinds
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
        return cls(program, in_double(params), Batch(in_double(batch.inputs), batch.targets))

    def precision(self) -> AbstractContextManager[None]:
        """The context in which it runs."""
        return x64() if self.exact else nullcontext()

    def seen(self, through: Kinds) -> Capture:
        """One pass with its gradients, declared derivatives of these kinds seen through."""
        program = self._seeing(through)
        with self.precision():
            return capture(program, self.params, self.batch, TokenReduction.FLATTEN)

    def _seeing(self, through: Kinds) -> Program:
        return program_of(self.program.network, self.program.loss, through)

    def examined(self, apply: Stage, through: Kinds) -> Capture:
        """The same; with it, parts that are not those of `apply` and samples that influence each other are refused."""
        program = self._seeing(through)
        with self.precision():
            targets = targets_for(program, self.params, self.batch)
            seen, reached, own = ran(lambda: program.examined(apply, self.params, self.batch.inputs, targets))
        self._require_double(seen.logits, seen.hiddens)
        found = captured(program, seen, self.batch, TokenReduction.FLATTEN)
        self._check_composition(doubles(own), doubles(found.logits))
        check_independent(doubles(reached))
        return found

    def looked(self, apply: Stage) -> tuple[Any, tuple[Any, ...]]:
        """Logits and sites without gradients; parts that are not those of `apply` are refused."""
        with self.precision():
            logits, hiddens, own = ran(lambda: self.program.looked(apply, self.params, self.batch.inputs))
        self._require_double(logits, hiddens)
        self._check_composition(doubles(own), doubles(logits))
        return logits, hiddens

    def stream(self) -> tuple[Any, tuple[Any, ...]]:
        """Logits and sites without gradients; refused where something that should be fp64 is not."""
        with self.precision():
            logits, hiddens = ran(lambda: self.program.stream(self.params, self.batch.inputs))
        self._require_double(logits, hiddens)
        return logits, hiddens

    def require_exact(self) -> Doubles:
        """The logits."""
        return doubles(self.stream()[0])

    def _require_double(self, logits: Any, hiddens: Sequence[Any]) -> None:
        lower = {str(each.dtype) for each in (logits, *hiddens) if each.dtype != np.float64}
        if self.exact and lower:
            raise NotDouble(f"sites or logits are {', '.join(sorted(lower))} whatever the parameters are in")

    @cached_property
    def found(self) -> Found:
        """What the network computes here, as it is declared."""
        with self.precision():
            return self.program.found(self.params, self.batch.inputs)

    @property
    def coarsest(self) -> Any:
        """The lowest precision that values are rounded to inside; None where they never are."""
        return self.found.coarsest if self.exact else None

    @cached_property
    def draws_anew(self) -> bool:
        """Whether random numbers that are drawn inside are others for the same sample elsewhere in a batch."""
        if not self.found.draws:
            return False
        some = self.batch.first(2)
        twice = Batch(some.repeated(2), np.concatenate([some.targets] * 2))
        first, second = np.split(replace(self, batch=twice).require_exact(), 2)
        return bool(apart_by(first, second, SAME_IN_DOUBLE if self.exact else SAME_IN_SINGLE))

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

    def _check_composition(self, own: Doubles, logits: Doubles) -> None:
        apart = apart_by(own, logits, SAME_IN_DOUBLE if self.exact else SAME_IN_SINGLE)
        if apart:
            raise Refused(
                f"stem, blocks and head do not compute what apply does: {apart}. Expected the same network twice: "
                "apply as a whole, and its parts in their order, with nothing left out between them."
            )


class NotDouble(InputError):
    """A network that does not compute in fp64."""


class Refused(InputError):
    """Something that is wrong in every precision."""


def check_independent(reached: Doubles) -> None:
    """Refuse a network whose last sample's logits have a gradient at h_0 of another sample."""
    leak = float(np.abs(np.nan_to_num(reached[:-1])).max(initial=0.0))
    if leak > 0:
        raise Refused(
            f"the logits of one sample depend on h_0 of another (gradient {leak:.1e}, expected 0), so per-sample "
            "gradients mean nothing. Give batch norm its running statistics (eval mode); is the first axis the batch?"
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
