"""The true gradient: of the candidates for it the one that finite differences of the loss agree with.

Seen through: backward passes of the network's own (custom autograd Functions, hooks) are left out, and what is
differentiated is what the network computes. As declared: they are taken at their word. Where neither is the network's
gradient, because something detaches the stream, estimates a gradient straight through a step, or has none, there is no
reference, and nothing is measured against one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from torch import nn

from walkback.errors import NoGradient
from walkback.protocol.batches import Batch
from walkback.protocol.capture import Capture, Sites, capture, capture_stream
from walkback.protocol.double import Doubled, in_double, in_short
from walkback.protocol.gradient_check import Candidate, Look, reads_first_token_alone
from walkback.protocol.losses import Loss
from walkback.protocol.records import ReferenceCheck
from walkback.protocol.reduction import TokenReduction, default_reduction
from walkback.protocol.reference_failure import check_of, explained, wrong_loss
from walkback.protocol.reference_words import NO_ALIGNMENT as NO_ALIGNMENT
from walkback.protocol.reference_words import NO_GRADIENTS, ON_REQUEST
from walkback.protocol.seen_through import Sight
from walkback.protocol.sites import Chain
from walkback.protocol.sizes import REFERENCE_SAMPLES
from walkback.protocol.untouched import random_states_kept

FEW_SAMPLES = 4
"""How many samples run in passes that only look at the structure."""


@dataclass(frozen=True)
class Reference:
    """Where the gradients of a network come from."""

    check: ReferenceCheck
    sight: Sight = field(default_factory=Sight)
    exact: Sites | str = ""
    """The sites of the first samples in fp64, or why there are none."""
    measured: bool = True
    """Whether gradients are measured at all."""
    judged: bool = True
    """Whether they stand for the true ones, so that (b) and (c) are judged on them."""

    @property
    def stream_kept(self) -> bool:
        """Whether nothing writes to a site once it is read, as far as is known."""
        return not isinstance(self.exact, str) and self.exact.stream_kept

    def capture(
        self,
        model: nn.Module,
        chain: Chain,
        batch: Batch,
        loss: Loss | None,
        reduction: TokenReduction,
        offset: int = 0,
    ) -> Capture:
        """One batch, with the gradients of this reference, if it has any."""
        measure = capture if self.measured else capture_stream
        return self.sight.run(lambda: measure(model, chain, batch, loss, reduction, offset))

    def exact_on(self, model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None) -> Sites | str:
        """The sites of the first samples of another batch in fp64, or why there are none."""
        some = batch.first(min(REFERENCE_SAMPLES, batch.size))
        with random_states_kept():
            try:
                run = lambda doubled: self.sight.run(doubled.sites)  # noqa: E731
                with in_double(model, chain, some, loss, run) as (doubled, sites, why):
                    return sites if doubled.exact else f"no fp64 pass: {why}"
            except Exception as error:  # whatever a model does not support in fp64, the rest is measured all the same
                return f"no fp64 pass: {in_short(error)}"

    def reduction(self, model: nn.Module, chain: Chain, batch: Batch, seen: Capture) -> TokenReduction:
        """What stands for a sample where sites hold tokens: the class token, where the loss reads that one alone."""
        if seen.grads:
            return default_reduction(seen.grads[-1])
        few = Doubled(model, chain, batch.first(min(FEW_SAMPLES, batch.size)), None, exact=False)
        with random_states_kept():
            alone = self.sight.run(lambda: reads_first_token_alone(few))
        return TokenReduction.CLASS_TOKEN if alone else TokenReduction.FLATTEN


def no_gradients() -> Reference:
    """None, for networks that no loss is backpropagated through."""
    return Reference(ReferenceCheck(candidate="none", reason=NO_GRADIENTS), measured=False, judged=False)


def as_declared() -> Reference:
    """The declared backward pass, unchecked."""
    check = ReferenceCheck(candidate="declared", reason=ON_REQUEST)
    return Reference(check, Sight(through=False), ON_REQUEST, judged=False)


def find_reference(
    model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, sight: Sight | None = None
) -> Reference:
    """The candidate that finite differences agree with on the first samples; none where neither passes.

    A network whose logits do not depend on its sites at all raises `NoGradient`.
    """
    some = batch.first(min(REFERENCE_SAMPLES, batch.size))
    through, declared = sight or Sight(), Sight(through=False)

    def attempt(doubled: Doubled) -> Candidate:
        try:
            return Candidate.tried(doubled, through)
        except Exception:
            if not through.met:
                raise
            return Candidate.tried(doubled, declared)

    with random_states_kept():
        try:
            with in_double(model, chain, some, loss, attempt) as (doubled, first, why):
                return _chosen(doubled, first, declared, why)
        except NoGradient:
            raise
        except Exception as error:  # whatever a model does not support in fp64, the rest is measured all the same
            why = f"no fp64 pass: {in_short(error)}"
            check = ReferenceCheck(candidate="autograd", reason=f"The check could not be made: {why}.")
            return Reference(check, through, why)


def _chosen(doubled: Doubled, first: Candidate, declared: Sight, why_not_exact: str) -> Reference:
    """The first candidate that passes, or what is wrong with both."""
    candidates = [first]
    # Where nothing was seen through, what is declared is the same.
    if not first.agreement.agrees and first.sight.seen_through:
        with suppress(Exception):  # it may not even run
            candidates.append(Candidate.tried(doubled, declared))
    chosen = next((c for c in candidates if c.agreement.agrees), None)
    if chosen is None:
        chosen, check = explained(doubled, candidates)
    else:
        wrong = wrong_loss(doubled, chosen)
        check = check_of(chosen, doubled.chain, **({"passed": False, "reason": wrong} if wrong else {}))
    exact: Sites | str = f"no fp64 pass: {why_not_exact}"
    if isinstance(chosen.seen, Look) and doubled.exact:
        exact = chosen.seen.sites
    usable = check.passed is not False
    return Reference(check, chosen.sight, exact, measured=usable, judged=usable)
