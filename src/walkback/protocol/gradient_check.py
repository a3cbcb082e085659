"""One candidate for the true gradient against the network itself, by finite differences at a site."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.errors import NoGradient
from walkback.protocol.capture import Sites
from walkback.protocol.double import Doubled, have_drawn, in_short, seed_all
from walkback.protocol.finite_differences import DIRECTIONS, Agreement, Slope
from walkback.protocol.gradient_suspects import coarser_inside
from walkback.protocol.losses import Loss, values_of
from walkback.protocol.seen_through import Sight, steps_in
from walkback.protocol.site_reader import SiteReader
from walkback.protocol.sites import samples_first


class Look(NamedTuple):
    """What one pass in fp64 showed."""

    sites: Sites
    steps: set[str]
    """Steps between the first site and the logits, which have no slope."""
    draws: bool
    """Whether the forward pass draws random numbers."""


def look(doubled: Doubled) -> Look:
    """One pass with its gradients."""
    steps: set[str] = set()
    sites = doubled.sites(lambda logits: steps.update(steps_in([logits.grad_fn])))
    return Look(sites, steps, have_drawn())


@dataclass(frozen=True)
class Candidate:
    """A gradient that may be the true one, and what finite differences at the first site say of it."""

    sight: Sight
    seen: Look | NoGradient
    agreement: Agreement
    why_not: str = ""
    """Why finite differences could not be taken, where they could not."""

    @classmethod
    def tried(cls, doubled: Doubled, sight: Sight) -> Candidate:
        """Run it, and check it at the first site; a network that does not run in this way at all raises."""
        try:
            seen = sight.run(lambda: look(doubled))
        except NoGradient as cut:
            return cls(sight, cut, Agreement(False, 1.0, 0, 0))
        try:
            return cls(sight, seen, sight.run(lambda: check_at(doubled, seen, 0)))
        except Exception as error:
            return cls(sight, seen, Agreement(None, math.nan, 0, 0), in_short(error))

    def agreement_at(self, doubled: Doubled, site: int) -> Agreement:
        """What finite differences at another site say."""
        assert isinstance(self.seen, Look)
        seen = self.seen
        return self.sight.run(lambda: check_at(doubled, seen, site))


def slope_at(doubled: Doubled, seen: Look, site: int, samples: int = DIRECTIONS) -> Slope:
    """The loss as a function of one site, over a few samples, and the gradient that the pass gave.

    To first order in the logits, ⟨∂ℓ/∂logits, logits⟩ with the first factor held fixed and of unit size: that has the
    gradient of the loss at h, and loses no digits where the loss is near zero.
    """
    # Random numbers are the same ones again only for as many samples.
    some = doubled if seen.draws else doubled.first(samples)
    count = some.batch.size
    error = seen.sites.error[:count].double()
    norms = error.flatten(1).norm(dim=1) if error.ndim > 1 else error.abs()
    unit = error / _rows(norms, error)
    at, grad = (tensors[site][:count].double() for tensors in (seen.sites.hiddens, seen.sites.grads))
    logits = seen.sites.logits[:count].double()
    return Slope(
        values=lambda several: [
            _summed(unit * logits) for logits in some.logits_of_each(site, several, not seen.draws)
        ],
        at=at,
        grad=grad / _rows(norms, grad),
        base=_summed(unit * logits),
        terms=_summed((unit * logits).abs()),
        single=not doubled.exact,
    )


def check_at(doubled: Doubled, seen: Look, site: int) -> Agreement:
    """Whether the gradient at one site is that of the network behind it."""
    slope = slope_at(doubled, seen, site)
    agreement = slope.check()
    if agreement.agrees is False and not slope.single and coarser_inside(doubled) is torch.float32:
        # What is rounded to fp32 on the way is flat over small steps: large ones decide.
        agreement = replace(slope, single=True).check()
    if not seen.steps or agreement.agrees is False:
        return agreement
    stepped = agreement.agrees is None or slope_at(doubled, seen, site, doubled.batch.size).jumps()
    return Agreement(False, 1.0, agreement.directions, agreement.kinks) if stepped else agreement


def check_loss(doubled: Doubled, seen: Look) -> Agreement | None:
    """Whether a loss of the caller's has the gradient that it gave at the logits; None where the loss is walkback's."""
    loss, sites = doubled.loss, seen.sites
    if loss is None or sites.logits.ndim < 2:
        return None
    count = min(DIRECTIONS, doubled.batch.size)
    at, targets = sites.logits[:count].double(), doubled.batch.targets[:count]

    def values(several: list[Tensor]) -> list[Tensor]:
        return [_seeded(loss, logits, targets) for logits in several]

    (base,) = values([at])
    slope = Slope(values, at, sites.error[:count].double(), base, base.abs())
    agreement = slope.check()
    # A caller's loss may compute in fp32 whatever it is given.
    return replace(slope, single=True).check() if agreement.agrees is False else agreement


def loss_of_one_alone(doubled: Doubled, seen: Look) -> tuple[float, float] | None:
    """What a loss of the caller's gives one sample, where it is another number in a second call or in less company.

    None where the loss of each sample depends on that sample alone, and where the loss is walkback's.
    """
    loss, logits, targets = doubled.loss, seen.sites.logits.double(), doubled.batch.targets
    if loss is None:
        return None
    once = _seeded(loss, logits, targets)
    few = max(1, len(once) // 2)
    for other in (_seeded(loss, logits, targets), _seeded(loss, logits[:few], targets[:few])):
        apart = (other - once[: len(other)]).abs()
        worst = int(apart.nan_to_num(0.0).argmax())
        if float(apart[worst]) > 1e-4 * float(torch.maximum(other.abs(), once[: len(other)].abs())[worst]):
            return float(once[worst]), float(other[worst])
    return None


def last_wrong(doubled: Doubled, candidate: Candidate) -> tuple[int, list[int]]:
    """The last site whose gradient is wrong, where the first one's is, and where else that was tried: by bisection."""
    assert isinstance(candidate.seen, Look)
    low, high, tried = 0, len(doubled.chain.taps), []
    while high - low > 1:
        middle = (low + high) // 2
        tried.append(middle)
        if candidate.agreement_at(doubled, middle).agrees is False:
            low = middle
        else:
            high = middle
    return low, tried


def is_random(doubled: Doubled, seen: Look) -> bool:
    """Whether two passes over one input, with the same random numbers to draw from, differ."""
    first, second = (doubled.logits(0, seen.sites.hiddens[0]) for _ in range(2))
    size = float(first.abs().max())
    return any(float((other - first).abs().max()) > 1e-5 * size for other in (second, seen.sites.logits.double()))


def depends_on(doubled: Doubled, site: int) -> bool:
    """Whether the logits change at all when a site does."""
    logits, value = _at(doubled, site)
    return not torch.equal(doubled.logits(site, value + _noise_like(value)), logits)


def reads_first_token_alone(doubled: Doubled) -> bool:
    """Whether the logits depend on token 0 of the last site, (B, T, d), and on no other."""
    last = len(doubled.chain.taps) - 1
    logits, value = _at(doubled, last)
    if value.ndim != 3 or value.shape[1] < 2:
        return False
    noise, others = _noise_like(value), torch.ones(value.shape[1], 1).to(value)
    others[0] = 0
    same = torch.equal(doubled.logits(last, value + noise * others), logits)
    return same and not torch.equal(doubled.logits(last, value + noise * (1 - others)), logits)


def _at(doubled: Doubled, site: int) -> tuple[Tensor, Tensor]:
    """The logits of a pass without gradients, in fp64, and what a site holds there, samples along its first axis."""
    reader = SiteReader(doubled.chain, doubled.begin_in, gradients=False)
    seed_all()
    with torch.no_grad(), reader.attached():
        logits = doubled.call().double()
    return logits, samples_first(reader.values[site], doubled.chain.taps[site], doubled.batch.size)


def _noise_like(value: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
    return noise * value.abs().mean().clamp(min=1e-30)


@torch.no_grad()
def _seeded(loss: Loss, logits: Tensor, targets: Tensor) -> Tensor:
    seed_all()
    return values_of(loss, logits, targets).double()


def _rows(norms: Tensor, like: Tensor) -> Tensor:
    return norms.view(-1, *[1] * (like.ndim - 1))


def _summed(values: Tensor) -> Tensor:
    return values.flatten(1).sum(dim=1) if values.ndim > 1 else values
