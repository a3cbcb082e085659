"""Is a gradient that of the function? Finite differences along directions, one direction for each sample.

The method, its step sizes and its limits are those of `protocol/finite_differences.py`; arrays are NumPy's here, and
the function behind them is compiled by JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from walkback.jax.numbers import Doubles, rows
from walkback.protocol.step_sizes import (
    CLEARLY_WRONG,
    COARSE,
    DIRECTION_SEED,
    DIRECTIONS,
    FINE,
    LARGE_STEPS,
    ROUNDING,
    ROUNDING_IN_SINGLE,
    STEPPED,
    Agreement,
    Rung,
)


@dataclass(frozen=True)
class Slope:
    """A function of a few samples' h, one number each, and a gradient that it is said to have."""

    values: Callable[[list[Doubles]], list[Doubles]]
    """Several h, each (B, …), → φ of each, (B,)."""
    at: Doubles
    grad: Doubles
    base: Doubles
    """φ at h."""
    terms: Doubles
    """The sum of the sizes of the terms of φ, (B,): rounding is relative to it."""
    single: bool = False
    """φ is computed in fp32."""

    def check(self) -> Agreement:
        """Compare the gradient with differences; at the first step size at which they settle."""
        if not self._usable.any():
            return Agreement(None, math.nan, 0, 0)
        outcomes = []
        for rung, directions, base in self._attempts():
            outcome = self._compare(rung, directions, base)
            if outcome.agrees is not None:
                return outcome
            outcomes.append(outcome)
        # Kinks alone, of thousands of units one at a time, bend differences by little: most of an error is an error.
        wrong = all(outcome.error > CLEARLY_WRONG for outcome in outcomes)
        last = outcomes[-1]
        return Agreement(False if wrong else None, last.error, last.directions, last.kinks)

    def jumps(self) -> bool:
        """Whether φ has steps that the gradient does not see: along random directions, over large distances."""
        (directions,) = self._directions(1, np.ones_like(self.at), of_gradient=False)
        expected = _summed(self.grad * directions)
        for step, (above, below) in zip(LARGE_STEPS, self._both_sides(directions, LARGE_STEPS), strict=True):
            off = (above - below) / (2 * step) - expected
            relative = (off / np.maximum(self._sizes, self._noise(step)))[self._usable]
            if np.sqrt(np.square(relative).mean()) > STEPPED:
                return True
        return False

    def _attempts(self) -> Iterator[tuple[Rung, list[Doubles], Doubles]]:
        sets = math.ceil(DIRECTIONS / len(self.at))
        everywhere = np.ones_like(self.at)
        rungs = COARSE if self.single else (*FINE, *COARSE)
        yield rungs[0], self._directions(sets, everywhere), self.base
        # The base was computed among other samples; in the same pass as the rest it rounds as the rest does.
        base = self.values([self.at])[0]
        for rung in rungs:
            yield rung, self._directions(sets, everywhere), base
            nonzero = (self.at != 0).astype(np.float64)
            if not nonzero[self._usable].all():
                # An h of exactly zero may lie on the kink of an activation that comes next.
                yield rung, self._directions(sets, nonzero), base

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        finite = [np.isfinite(each.reshape(len(each), -1)).all(axis=1) for each in (self.at, self.grad)]
        found: NDArray[np.bool_] = finite[0] & finite[1] & np.isfinite(self.base)
        return found

    @cached_property
    def _unit(self) -> Doubles:
        """The size of h where a step is taken: of each token, or of all of a sample; 1 where that is zero."""
        axes = (-1,) if self.at.ndim == 3 else tuple(range(1, self.at.ndim))
        size = np.sqrt(np.square(self.at).mean(axis=axes, keepdims=True))
        whole = rows(size.reshape(len(size), -1).max(axis=1), self.at)
        return np.broadcast_to(np.where(whole > 0, size, 1.0), self.at.shape)

    @cached_property
    def _sizes(self) -> Doubles:
        """What the gradient gives along random signs: the root mean square, (B,)."""
        found: Doubles = np.linalg.norm((self.grad * self._unit).reshape(len(self.at), -1), axis=1)
        return found

    def _directions(self, sets: int, where: Doubles, of_gradient: bool = True) -> list[Doubles]:
        """One direction per sample, several times over; every fourth is the gradient's."""
        drawn = np.random.default_rng(DIRECTION_SEED)
        unit, size = self._unit * where, self._sizes
        weights = self.grad * unit
        with np.errstate(invalid="ignore", divide="ignore"):
            steepest = weights / rows(size, weights) * math.sqrt(math.prod(weights.shape[1:]))
        made = []
        for number in range(sets):
            signs = drawn.integers(0, 2, self.at.shape) * 2.0 - 1
            along = ((np.arange(len(self.at)) + number) % 4 == 3) & (size > 0) & of_gradient
            made.append(unit * np.where(rows(along, weights), steepest, signs))
        return made

    def _compare(self, rung: Rung, directions: list[Doubles], base: Doubles) -> Agreement:
        parts = [self._errors(rung, direction, base) for direction in directions]
        error, settled = (np.concatenate([part[which][self._usable] for part in parts]) for which in (0, 1))
        count, kinks = len(error), int((~settled).sum())
        if 2 * kinks > count:
            return Agreement(None, float(np.median(np.nan_to_num(error, nan=1.0))), count, kinks)
        largest = float(error[settled].max())
        return Agreement(largest <= rung.tolerance, largest, count - kinks, kinks)

    def _errors(self, rung: Rung, direction: Doubles, base: Doubles) -> tuple[Doubles, NDArray[np.bool_]]:
        """The error of each sample's direction, and whether its differences settle."""
        wide, narrow = self._both_sides(direction, (rung.step, rung.step / 2))
        slope, finer = (wide[0] - wide[1]) / (2 * rung.step), (narrow[0] - narrow[1]) / rung.step
        estimate = (4 * finer - slope) / 3  # of the fourth order in the step
        expected = _summed(self.grad * direction)
        size, noise = self._sizes, self._noise(rung.step)
        scale = np.max([size, np.abs(expected), np.abs(estimate)], axis=0)
        bend = (narrow[0] - 2 * base + narrow[1]) / (rung.step / 2)
        apart = np.max([np.abs(slope - finer), np.abs(bend), noise], axis=0)
        nothing = (size == 0) & (np.abs(estimate) <= noise) & (np.abs(bend) <= 4 * noise)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.where(nothing, 0.0, np.abs(estimate - expected) / scale)
        return error, nothing | (apart <= rung.settled * scale)

    def _both_sides(self, direction: Doubles, steps: tuple[float, float]) -> list[tuple[Doubles, Doubles]]:
        """φ on both sides of h, at two step sizes."""
        moved = [self.at + sign * step * direction for step in steps for sign in (1, -1)]
        above, below, next_above, next_below = self.values(moved)
        return [(above, below), (next_above, next_below)]

    def _noise(self, step: float) -> Doubles:
        return self.terms * (ROUNDING_IN_SINGLE if self.single else ROUNDING) / step


def _summed(values: Doubles) -> Doubles:
    found: Doubles = values.reshape(len(values), -1).sum(axis=1)
    return found
