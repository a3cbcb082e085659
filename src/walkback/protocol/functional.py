"""Does credit tell how the loss moves? Two tests that need no gradient to compare with, on any network.

    perturbation   ρ_l = corr(⟨a_l, εv⟩, ℓ(h_l + εv) − ℓ(h_l)) over samples × random unit directions v, pooled
    nudge          mean over samples of ℓ(h_l − η a_l) − ℓ(h_l)

They hold where the gradient itself is too small to be a reference. Hao, Wan and Zhai (arXiv 2606.21126) defined them,
with ε = 1e-3 and η = 0.01 or 0.003. Beside that ε, which is next to nothing where ‖h_l‖ is 1e8, stands one in
proportion to the stream. Samples are pooled, so their scales matter: credit is taken as it is, and with RMS 1 in each
sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from walkback.errors import CreditError, InputError
from walkback.protocol import numerics
from walkback.protocol.functional_figures import DIRECTIONS as DIRECTIONS
from walkback.protocol.functional_figures import EPSILON, RATES, ROUNDING_DRAWS, STEPS, Responses
from walkback.protocol.losses import Loss

LAST_DIGIT = torch.finfo(torch.float64).eps
VALUES_AT_ONCE = 2**18
"""How many values of moved states are held at a time: few enough for the caches. Figures depend on it by rounding."""


@dataclass(frozen=True, eq=False)
class Site:
    """One site of a network and what lies behind it, in fp64: in fp32 the change of a loss drowns in rounding."""

    hidden: Tensor
    """h_l, (B, …)."""
    credit: Tensor
    """a_l, of the same shape."""
    targets: Tensor
    """(B, …)."""
    rest: Callable[[Tensor], Tensor]
    """The network from this site on, each sample by itself: states (N, …) → logits (N, …)."""
    loss: Loss
    """(logits, targets) → one loss per sample, (N,)."""

    def __post_init__(self) -> None:
        if self.credit.shape != self.hidden.shape:
            came, expected = tuple(self.credit.shape), tuple(self.hidden.shape)
            raise CreditError(f"the credit of a site has shape {came}; expected the shape of the site, {expected}.")
        if not len(self.hidden) == len(self.targets) > 0:
            raise InputError(
                f"a site has {len(self.hidden)} samples and {len(self.targets)} targets; expected as many of both, "
                "and at least one."
            )
        if {self.hidden.dtype, self.credit.dtype} != {torch.float64}:
            raise InputError(
                f"a site is {self.hidden.dtype} and its credit {self.credit.dtype}; expected torch.float64, as the "
                "change of a loss drowns in the rounding of anything less. Convert both, and a copy of the network, "
                "with .double()."
            )

    def rows(self, part: slice) -> Site:
        """Some of the samples."""
        return replace(self, hidden=self.hidden[part], credit=self.credit[part], targets=self.targets[part])

    def losses(self, moves: Tensor) -> Tensor:
        """ℓ(h_l), then ℓ(h_l + move) for several moves of each sample: (B, K, …) → (B, 1 + K)."""
        # ℓ(h_l) is from the same pass, so that rounding which depends on the size of a batch cancels.
        states = torch.cat([torch.zeros_like(moves[:, :1]), moves], dim=1).add_(self.hidden.unsqueeze(1))
        samples, count = states.shape[:2]
        losses = self.loss(self.rest(states.flatten(0, 1)), self.targets.repeat_interleave(count, dim=0))
        if losses.shape != (samples * count,) or losses.dtype != torch.float64:
            raise InputError(
                f"the loss computed from a site is {losses.dtype} of shape {tuple(losses.shape)} for {samples * count} "
                "states; expected torch.float64 and one loss for each. Give `rest` a network in fp64, and `loss` "
                "one that takes no mean over the batch."
            )
        return losses.view(samples, count)


def unit_rms(credit: Tensor) -> Tensor:
    """a / RMS(a) of each sample, over all its entries; a credit of zero stays zero. (B, …) → (B, …)."""
    flat = credit.flatten(1)
    rms = numerics.norms(flat).unsqueeze(1) / flat.shape[1] ** 0.5
    return (flat / torch.where(rms == 0, 1.0, rms)).view(credit.shape)


def unit_directions(shape: Sequence[int], count: int, generator: torch.Generator) -> Tensor:
    """Directions in fp64 for one sample, uniform on the unit sphere of its site: (count, *shape)."""
    drawn = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    lengths: Tensor = torch.linalg.vector_norm(drawn.flatten(1), dim=1)
    return drawn / lengths.view(-1, *[1] * len(shape))


def respond(site: Site, generator: torch.Generator, directions: int = DIRECTIONS) -> Responses:
    """How the loss of every sample answers the moves of both tests.

    Directions are drawn sample after sample, `directions` for each. What counts as rounding is how far the loss moves
    when every value of h_l moves by its last fp64 digit: the most of four such moves, with the signs of the first
    directions, and at least the last digit of the loss.
    """
    if directions < 1:
        raise InputError(f"{directions} directions were asked for; expected 1 or more.")
    hidden_norms, credit_norms = (numerics.norms(tensor.flatten(1)) for tensor in (site.hidden, site.credit))
    epsilons = (EPSILON, EPSILON * float(numerics.median(hidden_norms)))
    with torch.no_grad():
        parts = [_respond(site.rows(part), drawn, epsilons) for part, drawn in _drawn(site, generator, directions)]
    answers = (torch.cat(answer) for answer in zip(*parts, strict=True))
    return Responses(epsilons, *(tensor.cpu().numpy() for tensor in (hidden_norms, credit_norms, *answers)))


def _drawn(site: Site, generator: torch.Generator, directions: int) -> Iterator[tuple[slice, Tensor]]:
    """Some samples after the other, and their directions, (B, directions, …)."""
    shape, samples = site.hidden.shape[1:], len(site.hidden)
    size = max(1, VALUES_AT_ONCE // (len(STEPS) * directions * max(1, shape.numel())))
    for start in range(0, samples, size):
        stop = min(start + size, samples)
        # Sample by sample, so that what one gets does not depend on how many are drawn at once.
        drawn = [unit_directions(shape, directions, generator) for _ in range(start, stop)]
        yield slice(start, stop), torch.stack(drawn).to(site.hidden.device)


def _respond(site: Site, drawn: Tensor, epsilons: Sequence[float]) -> tuple[Tensor, ...]:
    """`predicted`, `changes`, `nudged` and `rounding` of some samples, as `Responses` has them."""
    credits = torch.stack([site.credit, unit_rms(site.credit)], dim=1)
    moves = [
        torch.cat([epsilon * drawn for epsilon in epsilons], dim=1),
        torch.cat([-rate * credits for rate in RATES], dim=1),
        LAST_DIGIT * drawn[:, :ROUNDING_DRAWS].sign() * site.hidden.unsqueeze(1),
    ]
    losses = site.losses(torch.cat(moves, dim=1))
    before, changes = losses[:, 0], losses[:, 1:] - losses[:, :1]
    stepped, nudged, jittered = torch.split(changes, [each.shape[1] for each in moves], dim=1)
    return (
        credits.flatten(2) @ drawn.flatten(2).mT,
        stepped.reshape(len(before), len(epsilons), -1),
        nudged.reshape(len(before), len(RATES), -1),
        torch.maximum(jittered.abs().amax(dim=1), LAST_DIGIT * before.abs()),
    )
