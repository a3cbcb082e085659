"""One candidate for the true gradient against the network itself, by finite differences at several sites."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import jax.numpy as jnp
import numpy as np

from walkback.jax.capture import Capture
from walkback.jax.doubled import Doubled
from walkback.jax.finite_differences import Slope
from walkback.jax.losses import loss_values
from walkback.jax.numbers import Doubles, doubles, norms, rows
from walkback.jax.precision import x64
from walkback.jax.through import Kinds
from walkback.protocol.step_sizes import DIRECTIONS, Agreement


def sites_to_check(count: int) -> list[int]:
    """The first site, one in the middle, and the last."""
    return sorted({0, count // 2, count - 1})


@dataclass(frozen=True)
class Candidate:
    """A gradient that may be the true one, and what finite differences say of it."""

    doubled: Doubled
    through: Kinds
    seen: Capture

    @cached_property
    def agreements(self) -> dict[int, Agreement]:
        """At the sites that are checked; no further once one is wrong."""
        found: dict[int, Agreement] = {}
        for site in sites_to_check(len(self.seen.hiddens)):
            found[site] = self.at(site)
            if found[site].agrees is False:
                break
        return found

    @cached_property
    def agreement(self) -> Agreement:
        """All sites as one: right where all are right, wrong where one is."""
        several = list(self.agreements.values())
        states = [each.agrees for each in several]
        agrees = False if False in states else None if None in states else True
        known = [each.error for each in several if each.error == each.error]
        return Agreement(
            agrees,
            max(known, default=math.nan),
            sum(each.directions for each in several),
            sum(each.kinks for each in several),
        )

    def at(self, site: int) -> Agreement:
        """Whether the gradient at one site is that of the network behind it."""
        if self.doubled.draws_anew:
            return Agreement(None, math.nan, 0, 0)
        slope = self._slope(site)
        agreement = slope.check()
        if agreement.agrees is False and not slope.single and self.doubled.coarsest == jnp.float32:
            # What is rounded to fp32 on the way is flat over small steps: large ones decide.
            agreement = replace(slope, single=True).check()
        if agreement.agrees is False or not self.doubled.found.steps:
            return agreement
        stepped = agreement.agrees is None or self._slope(site, self.doubled.batch.size).jumps()
        return Agreement(False, 1.0, agreement.directions, agreement.kinks) if stepped else agreement

    def _slope(self, site: int, samples: int = DIRECTIONS) -> Slope:
        """The loss as a function of one site, over a few samples, and the gradient that the pass gave.

        To first order in the logits, ⟨∂ℓ/∂logits, logits⟩ with the first factor held fixed and of unit size: that has
        the gradient of the loss at h, and loses no digits where the loss is near zero.
        """
        count = min(samples, self.seen.samples)
        seen = self.seen
        error = seen.error[:count] / rows(_or_one(seen.scale[:count]), seen.error)
        size = norms(error.reshape(count, -1))
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = error / rows(size, error)
            grad = doubles(seen.grads[site][:count]) / rows(size, seen.grads[site])
        logits = doubles(seen.logits[:count])

        def values(several: list[Doubles]) -> list[Doubles]:
            return [_summed(unit * each) for each in self.doubled.logits_of_each(site, several)]

        at = doubles(seen.hiddens[site][:count])
        terms = _summed(np.abs(unit * logits))
        return Slope(values, at, grad, _summed(unit * logits), terms, single=not self.doubled.exact)

    def last_wrong(self) -> tuple[int, list[int]]:
        """The last site whose gradient is wrong, where the first one's is, and where that was tried: by bisection."""
        low = next(site for site, each in self.agreements.items() if each.agrees is False)
        high, tried = len(self.seen.hiddens), [low]
        while high - low > 1:
            middle = (low + high) // 2
            tried.append(middle)
            if self.at(middle).agrees is False:
                low = middle
            else:
                high = middle
        return low, tried

    def unreached(self) -> int | None:
        """The last site that the logits do not depend on in any way; None where they depend on all."""
        for site in reversed(range(len(self.seen.hiddens))):
            if np.any(doubles(self.seen.grads[site]) != 0) or not np.any(self.seen.error != 0):
                continue
            at = doubles(self.seen.hiddens[site])
            noise = np.random.default_rng(0).normal(size=at.shape) * max(float(np.abs(at).mean()), 1e-30)
            moved, still = self.doubled.logits_of_each(site, [at + noise, at])
            if np.array_equal(moved, still, equal_nan=True):
                return site
        return None

    def check_loss(self) -> Agreement | None:
        """Whether a loss of the caller's has the gradient that it gave at the logits; None where it is walkback's."""
        if self.doubled.program.loss is None or self.seen.logits.ndim < 2:
            return None
        count = min(DIRECTIONS, self.seen.samples)
        at = doubles(self.seen.logits[:count])

        def values(several: list[Doubles]) -> list[Doubles]:
            return [self._losses(logits, count) for logits in several]

        base = values([at])[0]
        slope = Slope(values, at, self.seen.error[:count], base, np.abs(base))
        agreement = slope.check()
        # A caller's loss may compute in fp32 whatever it is given.
        return replace(slope, single=True).check() if agreement.agrees is False else agreement

    def loss_of_one_alone(self) -> tuple[float, float] | None:
        """What a loss of the caller's gives one sample, where it is another number in less company; else None."""
        if self.doubled.program.loss is None:
            return None
        logits = doubles(self.seen.logits)
        once = self._losses(logits, len(logits))
        few = max(1, len(once) // 2)
        for other in (self._losses(logits, len(logits)), self._losses(logits[:few], few)):
            apart = np.nan_to_num(np.abs(other - once[: len(other)]))
            worst = int(apart.argmax())
            if apart[worst] > 1e-4 * max(abs(other[worst]), abs(once[worst])):
                return float(once[worst]), float(other[worst])
        return None

    def _losses(self, logits: Doubles, count: int) -> Doubles:
        loss = self.doubled.program.loss
        assert loss is not None
        with x64():
            return doubles(loss_values(loss, jnp.asarray(logits), jnp.asarray(self.doubled.batch.targets[:count])))


def _or_one(scale: Doubles) -> Doubles:
    found: Doubles = np.where(scale > 0, scale, 1.0)
    return found


def _summed(values: Doubles) -> Doubles:
    found: Doubles = values.reshape(len(values), -1).sum(axis=1)
    return found
