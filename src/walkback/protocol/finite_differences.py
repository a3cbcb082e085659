"""Is a gradient that of the function? Finite differences along directions, one direction for each sample.

    D(v) = (φ(h + εv) − φ(h − εv)) / 2ε   against   ⟨∂φ/∂h, v⟩

Directions are random signs, or the gradient itself, in units of the size that h has there (of each token, where there
are tokens). D at two step sizes agrees where φ is smooth; where it does not, or where one-sided differences disagree,
a kink lies in between and the direction is left out. The error of a direction is |D(v) − ⟨∂φ/∂h, v⟩| over what a
gradient of that size gives along such a direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from walkback.protocol.step_sizes import (
    CLEARLY_WRONG,
    COARSE,
    DIRECTION_SEED,
    FINE,
    LARGE_STEPS,
    ROUNDING,
    ROUNDING_IN_SINGLE,
    STEPPED,
    Rung,
)
from walkback.protocol.step_sizes import DIRECTIONS as DIRECTIONS
from walkback.protocol.step_sizes import Agreement as Agreement


@dataclass(frozen=True)
class Slope:
    """A function of a few samples' h, one number each, and a gradient that it is said to have."""

    values: Callable[[list[Tensor]], list[Tensor]]
    """Several h, each (B, …), → φ of each, (B,), in fp64."""
    at: Tensor
    grad: Tensor
    base: Tensor
    """φ at h."""
    terms: Tensor
    """The sum of the sizes of the terms of φ, (B,): rounding is relative to it."""
    single: bool = False
    """φ is computed in fp32."""

    def check(self) -> Agreement:
        """Compare the gradient with differences; at the first step size at which they settle."""
        if not bool(self._usable.any()):
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
        (directions,) = self._directions(1, torch.ones_like(self.at), of_gradient=False)
        expected = (self.grad * directions).flatten(1).sum(dim=1)
        for step, (above, below) in zip(LARGE_STEPS, self._both_sides(directions, LARGE_STEPS), strict=True):
            off = (above - below) / (2 * step) - expected
            relative = (off / torch.maximum(self._sizes, self._noise(step)))[self._usable]
            if bool(relative.square().mean().sqrt() > STEPPED):
                return True
        return False

    def _attempts(self) -> Iterator[tuple[Rung, list[Tensor], Tensor]]:
        sets = math.ceil(DIRECTIONS / len(self.at))
        everywhere = torch.ones_like(self.at)
        rungs = COARSE if self.single else (*FINE, *COARSE)
        yield rungs[0], self._directions(sets, everywhere), self.base
        # The base was computed among other samples; in the same pass as the rest it rounds as the rest does.
        (base,) = self.values([self.at])
        for rung in rungs:
            yield rung, self._directions(sets, everywhere), base
            nonzero = (self.at != 0).to(self.at.dtype)
            if not bool(nonzero[self._usable].all()):
                # An h of exactly zero may lie on the kink of an activation that comes next.
                yield rung, self._directions(sets, nonzero), base

    @cached_property
    def _usable(self) -> Tensor:
        finite = self.at.flatten(1).isfinite().all(dim=1) & self.grad.flatten(1).isfinite().all(dim=1)
        return finite & self.base.isfinite()

    @cached_property
    def _unit(self) -> Tensor:
        """The size of h where a step is taken: of each token, or of all of a sample; 1 where that is zero."""
        axes = (-1,) if self.at.ndim == 3 else tuple(range(1, self.at.ndim))
        size = self.at.square().mean(dim=axes, keepdim=True).sqrt()
        whole = size.flatten(1).amax(dim=1).view(-1, *[1] * (self.at.ndim - 1))
        unit: Tensor = torch.where(whole > 0, size, torch.ones_like(size)).expand_as(self.at)
        return unit

    @cached_property
    def _sizes(self) -> Tensor:
        """What the gradient gives along random signs: the root mean square, (B,)."""
        sizes: Tensor = torch.linalg.vector_norm((self.grad * self._unit).flatten(1), dim=1)
        return sizes

    def _directions(self, sets: int, where: Tensor, of_gradient: bool = True) -> list[Tensor]:
        """One direction per sample, several times over; every fourth is the gradient's."""
        generator = torch.Generator().manual_seed(DIRECTION_SEED)
        unit, size = self._unit * where, self._sizes
        weights = (self.grad * unit).flatten(1)
        steepest = (weights / size.unsqueeze(1) * math.sqrt(weights.shape[1])).view_as(self.at)
        rows = torch.arange(len(self.at))
        made = []
        for number in range(sets):
            signs = torch.randint(0, 2, self.at.shape, generator=generator).to(self.at) * 2 - 1
            along = ((rows + number) % 4 == 3).to(self.at.device) & (size > 0) & of_gradient
            made.append(unit * torch.where(along.view(-1, *[1] * (self.at.ndim - 1)), steepest, signs))
        return made

    def _compare(self, rung: Rung, directions: list[Tensor], base: Tensor) -> Agreement:
        errors, clean = [], []
        for direction in directions:
            error, settled = self._errors(rung, direction, base)
            errors.append(error[self._usable])
            clean.append(settled[self._usable])
        error, settled = torch.cat(errors), torch.cat(clean)
        count, kinks = len(error), int((~settled).sum())
        if 2 * kinks > count:
            return Agreement(None, float(error.nan_to_num(1.0).median()), count, kinks)
        largest = float(error[settled].max())
        return Agreement(largest <= rung.tolerance, largest, count - kinks, kinks)

    def _errors(self, rung: Rung, direction: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
        """The error of each sample's direction, and whether its differences settle."""
        wide, narrow = self._both_sides(direction, (rung.step, rung.step / 2))
        slope, finer = (wide[0] - wide[1]) / (2 * rung.step), (narrow[0] - narrow[1]) / rung.step
        estimate = (4 * finer - slope) / 3  # of the fourth order in the step
        expected = (self.grad * direction).flatten(1).sum(dim=1)
        size, noise = self._sizes, self._noise(rung.step)
        scale = torch.stack([size, expected.abs(), estimate.abs()]).amax(dim=0)
        bend = (narrow[0] - 2 * base + narrow[1]) / (rung.step / 2)
        apart = torch.stack([(slope - finer).abs(), bend.abs(), noise]).amax(dim=0)
        nothing = (size == 0) & (estimate.abs() <= noise) & (bend.abs() <= 4 * noise)
        error = torch.where(nothing, 0.0, (estimate - expected).abs() / scale)
        return error, nothing | (apart <= rung.settled * scale)

    def _both_sides(self, direction: Tensor, steps: tuple[float, float]) -> list[tuple[Tensor, Tensor]]:
        """φ on both sides of h, at two step sizes."""
        moved = [self.at + sign * step * direction for step in steps for sign in (1, -1)]
        above, below, next_above, next_below = self.values(moved)
        return [(above, below), (next_above, next_below)]

    def _noise(self, step: float) -> Tensor:
        return self.terms * (ROUNDING_IN_SINGLE if self.single else ROUNDING) / step
