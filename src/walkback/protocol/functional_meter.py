"""The functional tests on any network: its first samples, its own sites, and itself in fp64 behind each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.errors import BatchError, InputError, MissingFeedback, WalkbackError
from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batches import Batch
from walkback.protocol.capture import Capture
from walkback.protocol.credit import CreditFunction, CreditRule, credits_for
from walkback.protocol.double import Doubled, have_drawn, in_double, in_short
from walkback.protocol.functional import DIRECTIONS, VALUES_AT_ONCE, Site, respond
from walkback.protocol.functional_fields import functional_fields
from walkback.protocol.functional_figures import SEED, Responses
from walkback.protocol.losses import IGNORED, Loss, values_of
from walkback.protocol.seen_through import Sight
from walkback.protocol.sites import Chain
from walkback.protocol.untouched import random_states_kept


@dataclass(frozen=True, eq=False)
class NetworkSite(Site):
    """A site of a network in fp64: what lies behind it is the network itself, where the site holds other values."""

    doubled: Doubled | None = None
    number: int = 0
    sight: Sight | None = None

    def rows(self, part: slice) -> Site:
        """Some of the samples, with the inputs that they come from."""
        assert self.doubled is not None
        start, stop, _ = part.indices(len(self.hidden))
        batch = self.doubled.batch.some(start, stop - start)
        some = replace(self, hidden=self.hidden[part], credit=self.credit[part], targets=self.targets[part])
        return replace(some, doubled=replace(self.doubled, batch=batch))

    def losses(self, moves: Tensor) -> Tensor:
        """ℓ(h_l), then ℓ(h_l + move) for one move after the other: (B, K, …) → (B, 1 + K)."""
        assert self.doubled is not None
        assert self.sight is not None
        states = [self.hidden, *(self.hidden + move for move in moves.unbind(1))]
        logits = self.sight.run(lambda: self._logits(states))
        return torch.stack([self.loss(each, self.targets) for each in logits], dim=1)

    def _logits(self, states: list[Tensor]) -> list[Tensor]:
        """Behind each of the states; several in one pass, unless random numbers are drawn for as many as there are."""
        assert self.doubled is not None
        found = [self.doubled.logits(self.number, states[0])]
        several = 1 if have_drawn() else max(1, VALUES_AT_ONCE // self.hidden.numel())
        doubled = replace(self.doubled, at_once=several * len(self.hidden))
        for start in range(1, len(states), several):
            found += doubled.logits_of_each(self.number, states[start : start + several], together=True)
        return found


@dataclass
class FunctionalMeter:
    """Does the credit tell how the loss moves? Measured on the first samples of the first batch."""

    rule: CreditRule
    samples: int
    directions: int = DIRECTIONS
    kept: tuple[Batch, list[Tensor], list[Tensor]] | None = None
    """The samples, their sites and their credit."""
    unavailable: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 1:
            raise InputError(
                f"functional is {self.samples!r}; expected on how many samples to test the credit, such as 64, or None."
            )

    def keep(self, batch: Batch, seen: Capture) -> None:
        """Take the first samples, and ask for their credit in the batch that they came in."""
        if self.kept is not None or self.unavailable:
            return
        some = batch.first(min(self.samples, batch.size))
        try:
            credits = credits_for(self.rule, seen.trace)
        except MissingFeedback as missing:
            self.unavailable = str(missing)
            return
        hiddens = [hidden[: some.size].detach().double() for hidden in seen.trace.hiddens]
        self.kept = some, hiddens, [credit[: some.size].double() for credit in credits]

    def fields(self, model: nn.Module, chain: Chain, loss: Loss | None, sight: Sight) -> dict[str, Any]:
        """ρ and nudge at every site with their intervals, as fields of `Measurements`; or why there are none."""
        if self.kept is None:
            return {"no_functional": self.unavailable or "no batch was measured"}
        batch, hiddens, credits = self.kept
        found = self._measured(model, chain, loss, sight, batch, hiddens, credits)
        return found | {"functional_samples": batch.size}

    def _measured(
        self, model: nn.Module, chain: Chain, loss: Loss | None, sight: Sight, batch: Batch,
        hiddens: list[Tensor], credits: list[Tensor],
    ) -> dict[str, Any]:  # fmt: skip

        def attempt(doubled: Doubled) -> list[Responses]:
            return [
                self._at(doubled, number, hidden, credit, loss, sight)
                for number, (hidden, credit) in enumerate(zip(hiddens, credits, strict=True))
            ]

        with random_states_kept():
            try:
                with in_double(model, chain, batch, loss, attempt) as (doubled, sites, why):
                    return _fields(sites) if doubled.exact else {"no_functional": f"no fp64 pass: {why}"}
            except BatchError as error:
                # The same batch passed in working precision: the network itself casts to another one.
                return {"no_functional": f"no fp64 pass: {in_short(error).partition('. ')[0]}"}
            except WalkbackError:
                raise  # a loss or a credit that cannot be used is the caller's to mend
            except Exception as error:  # whatever a model does not support in fp64, the rest is measured all the same
                return {"no_functional": f"the test failed with {type(error).__name__}: {in_short(error)}"}

    def _at(
        self, doubled: Doubled, number: int, hidden: Tensor, credit: Tensor, loss: Loss | None, sight: Sight
    ) -> Responses:
        targets = doubled.batch.targets

        def each(logits: Tensor, there: Tensor) -> Tensor:
            return (cross_entropies(logits, there) if loss is None else values_of(loss, logits, there)).double()

        site = NetworkSite(
            hidden, credit, targets, lambda states: states, each, doubled=doubled, number=number, sight=sight
        )
        # A generator for each site, so that no figure depends on which sites were measured.
        generator = torch.Generator().manual_seed(SEED + number)
        return respond(site, generator, self.directions)


def tester_of(credit: CreditRule | CreditFunction | None, samples: int | None) -> FunctionalMeter | None:
    """What tests a credit functionally, where that was asked for."""
    if samples is None:
        return None
    if credit is None:
        raise InputError("functional= tests a credit, and none was given. Pass credit= too.")
    return FunctionalMeter(AlignmentMeter.of(credit).rule, samples)


def cross_entropies(logits: Tensor, targets: Tensor) -> Tensor:
    """−log p of the right class of each sample; of a sequence, the mean over its scored tokens."""
    targets = targets.long()
    if logits.ndim == 2:
        return F.cross_entropy(logits, targets, reduction="none")
    scored = targets != IGNORED
    each = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
    return each.sum(dim=1) / scored.sum(dim=1).clamp(min=1)


def _fields(sites: list[Responses]) -> dict[str, Any]:
    reasons = (f"site {number}: {why}" for number, site in enumerate(sites) if (why := site.why_not()))
    broken = next(reasons, "")
    return {"no_functional": broken} if broken else functional_fields(sites)
