"""Why no candidate is the network's gradient: which block bends or cuts it, in a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from walkback.errors import NoGradient
from walkback.protocol.double import Doubled
from walkback.protocol.gradient_check import (
    Candidate,
    Look,
    check_loss,
    depends_on,
    is_random,
    last_wrong,
    loss_of_one_alone,
)
from walkback.protocol.gradient_suspects import coarser_inside, suspects_after
from walkback.protocol.records import ReferenceCheck
from walkback.protocol.reference_words import KEEP, TWIN, WITHOUT
from walkback.protocol.sites import Chain
from walkback.protocol.wording import written


def check_of(candidate: Candidate, chain: Chain, **fields: Any) -> ReferenceCheck:
    """The record of a candidate."""
    sight, agreement = candidate.sight, candidate.agreement
    names = {"seen_through": sight.seen_through, "kept": tuple(n for n in sight.met if n not in sight.seen_through)}
    kind = "seen_through" if sight.seen_through else "declared" if sight.met else "autograd"
    found = {
        "candidate": kind,
        "passed": agreement.agrees,
        "error": agreement.error if agreement.directions else None,
        "sites": (number_of(chain, 0),) if agreement.directions else (),
        "directions": agreement.directions,
        "kinks_discarded": agreement.kinks,
    }
    return ReferenceCheck(**found | names | fields)


def number_of(chain: Chain, site: int) -> int:
    """The number that a site has in the network, where not all are measured."""
    return chain.numbers[site] if chain.numbers is not None else site


def explained(doubled: Doubled, candidates: Sequence[Candidate]) -> tuple[Candidate, ReferenceCheck]:
    """Of candidates that did not pass: the one to speak of, and what is wrong with it or kept it from being checked.

    Where the logits do not depend on a site in any way, the candidate's `NoGradient` is raised.
    """
    chain = doubled.chain
    unsettled = next((c for c in candidates if c.agreement.agrees is None), None)
    if unsettled is not None:
        why = _cannot_tell(doubled, unsettled, unsettled.seen) if isinstance(unsettled.seen, Look) else ""
        return unsettled, check_of(unsettled, chain, reason=why or _unsettled(unsettled))
    candidate = next((c for c in candidates if isinstance(c.seen, Look)), candidates[0])
    if isinstance(candidate.seen, NoGradient):
        cut = candidate.seen
        if not candidate.sight.run(lambda: depends_on(doubled, cut.site)):
            raise cut
        return candidate, check_of(candidate, chain, reason=_cut(doubled, candidate, cut.site))
    why = _cannot_tell(doubled, candidate, candidate.seen)
    if why:
        return candidate, check_of(candidate, chain, passed=None, error=None, reason=why)
    site, tried = last_wrong(doubled, candidate)
    sites = tuple(sorted(number_of(chain, s) for s in {0, *tried}))
    return candidate, check_of(candidate, chain, sites=sites, reason=_bent(doubled, candidate, site))


def wrong_loss(doubled: Doubled, candidate: Candidate) -> str:
    """Why a gradient that the network passes on rightly is wrong from the start, at the caller's loss; empty if not."""
    assert isinstance(candidate.seen, Look)
    different = loss_of_one_alone(doubled, candidate.seen)
    if different is not None:
        return (
            f"loss= gives one sample {written(different[0])} and then, with fewer samples in the batch or in a second "
            f"call, {written(different[1])}; expected a loss of each sample that depends on that sample alone. Do not "
            "divide by the size of the batch or by a sum over it, and keep no state that changes the loss."
        )
    agreement = check_loss(doubled, candidate.seen)
    if agreement is None or agreement.agrees is not False:
        return ""
    return (
        "The gradient of loss= at the logits is not its derivative (finite differences: error "
        f"{written(agreement.error)} of its size): it detaches something, or has a backward pass of its own. Pass a "
        "loss whose backward pass is its derivative."
    )


def _unsettled(candidate: Candidate) -> str:
    if candidate.why_not:
        return f"The check could not be made: {candidate.why_not}."
    if not candidate.agreement.directions:
        return "The check could not be made: no sample has finite sites and an error to send back."
    return (
        "The check could not be made: finite differences of the loss do not settle at any step size "
        f"(typical difference {written(candidate.agreement.error)} of the gradient's size)."
    )


def _cannot_tell(doubled: Doubled, candidate: Candidate, seen: Look) -> str:
    """Why finite differences say nothing about this network, where that is so."""
    if candidate.why_not or not seen.sites.hiddens[0].isfinite().all():
        return ""
    if candidate.sight.run(lambda: is_random(doubled, seen)):
        return (
            "The check could not be made: the forward pass is random, or keeps a state: two passes over one input "
            "differ. Make it give the same output again in eval mode."
        )
    coarsest = candidate.sight.run(lambda: coarser_inside(doubled))
    if coarsest in (torch.float16, torch.bfloat16):
        half = str(coarsest).removeprefix("torch.")
        return (
            f"The check could not be made: the forward pass computes in {half} whatever the precision of its "
            "parameters is, and differences drown in that rounding. Switch that off for the diagnosis."
        )
    return ""


def _place(chain: Chain, site: int) -> str:
    """What lies between a site and the next."""
    if site == len(chain.taps) - 1:
        return f"what comes after the last site ({chain.taps[site]})"
    if chain.numbers is None and len(chain.blocks) == len(chain.taps) - 1:
        return f"block {site + 1} ({chain.blocks[site]})"
    return f"what lies between the sites '{chain.taps[site]}' and '{chain.taps[site + 1]}'"


def _cut(doubled: Doubled, candidate: Candidate, site: int) -> str:
    return (
        f"Autograd brings no gradient back to h_{number_of(doubled.chain, site)}, although the logits depend on it: "
        f"{_place(doubled.chain, site)} cuts it{_calls(doubled, candidate, site)}. {TWIN} {WITHOUT}"
    )


def _bent(doubled: Doubled, candidate: Candidate, site: int) -> str:
    chain = doubled.chain
    first, last = number_of(chain, 0), number_of(chain, site)
    where = f"h_{first}" if first == last else f"h_{first} to h_{last}"
    beyond = "" if site == len(chain.taps) - 1 else f" and agree with it at h_{number_of(chain, site + 1)}"
    earlier = ", and what comes before may too" if site else ""
    return (
        "The gradient that autograd gives is not that of the network: finite differences of the loss contradict it at "
        f"{where} (error {written(candidate.agreement.error)} of its size){beyond}, so {_place(chain, site)} cuts or "
        f"replaces it{_calls(doubled, candidate, site)}{earlier}. {TWIN} {KEEP}"
    )


def _calls(doubled: Doubled, candidate: Candidate, site: int) -> str:
    """What was seen there that may be the cause."""
    found: list[str] = []
    with suppress(Exception):  # a hint is not worth an error
        found = suspects_after(doubled, candidate.sight, site)
    kept = [name for name in candidate.sight.met if name not in candidate.sight.seen_through]
    parts = [f"it calls {', '.join(found)}"] if found else []
    parts += [f"the backward pass of {', '.join(kept)} is used as declared"] if kept else []
    return f" ({'; '.join(parts)})" if parts else ""
