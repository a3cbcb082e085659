"""Why no candidate is the network's gradient: which block bends or cuts it, in a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from walkback.jax.gradient_check import Candidate
from walkback.jax.network import Composed
from walkback.jax.through import JVP, VJP, suspects
from walkback.protocol.records import ReferenceCheck
from walkback.protocol.reference_words import KEEP, WITHOUT
from walkback.protocol.wording import written

TWIN = (
    "Pass reference= the blocks of a twin, of the same function and with the same params, whose derivative is its own."
)
DRAWS = "the network draws random numbers inside, which are others at other places of a batch"
Own = dict[str, tuple[str, ...]]


def in_short(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def check_of(candidate: Candidate, own: Own, **fields: Any) -> ReferenceCheck:
    """The record of a candidate."""
    agreement, through = candidate.agreement, candidate.through
    seen = tuple(name for kind in (VJP, JVP) if kind in through for name in own[kind])
    kept = own[VJP] if VJP not in through else ()
    found = {
        "candidate": "seen_through" if through else "declared" if own[VJP] else "autograd",
        "passed": agreement.agrees,
        "error": agreement.error if agreement.directions else None,
        "sites": tuple(candidate.agreements) if agreement.directions else (),
        "directions": agreement.directions,
        "kinks_discarded": agreement.kinks,
        "seen_through": seen,
        "kept": kept,
    }
    return ReferenceCheck(**found | fields)


def explained(candidates: Sequence[Candidate], own: Own) -> tuple[Candidate, ReferenceCheck]:
    """Of candidates that did not pass: the one to speak of, and what is wrong with it or kept it from being checked."""
    unsettled = next((each for each in candidates if each.agreement.agrees is None), None)
    if unsettled is not None:
        return unsettled, check_of(unsettled, own, reason=_cannot_tell(unsettled) or _unsettled(unsettled))
    candidate = candidates[0]
    why = _cannot_tell(candidate)
    if why:
        return candidate, check_of(candidate, own, passed=None, error=None, reason=why)
    site, tried = candidate.last_wrong()
    sites = tuple(sorted({*candidate.agreements, *tried}))
    return candidate, check_of(candidate, own, sites=sites, reason=_bent(candidate, site, own))


def wrong_loss(candidate: Candidate) -> str:
    """Why a gradient that the network passes on rightly is wrong from the start, at the caller's loss; empty if not."""
    different = candidate.loss_of_one_alone()
    if different is not None:
        return (
            f"loss= gives one sample {written(different[0])} and then, with fewer samples in the batch or in a second "
            f"call, {written(different[1])}; expected a loss of each sample that depends on that sample alone. Do not "
            "divide by the size of the batch or by a sum over it, and keep no state that changes the loss."
        )
    agreement = candidate.check_loss()
    if agreement is None or agreement.agrees is not False:
        return ""
    return (
        "The gradient of loss= at the logits is not its derivative (finite differences: error "
        f"{written(agreement.error)} of its size): it stops a gradient, or declares one of its own. Pass a loss whose "
        "gradient is its derivative."
    )


def _unsettled(candidate: Candidate) -> str:
    if not candidate.agreement.directions:
        return "The check could not be made: no sample has finite sites and an error to send back."
    return (
        "The check could not be made: finite differences of the loss do not settle at any step size "
        f"(typical difference {written(candidate.agreement.error)} of the gradient's size)."
    )


def _cannot_tell(candidate: Candidate) -> str:
    """Why finite differences say nothing about this network, where that is so."""
    if candidate.doubled.draws_anew:
        return f"The check could not be made: {DRAWS}. Give it fixed numbers, or leave them out for the diagnosis."
    coarsest = candidate.doubled.coarsest
    if coarsest is None or jnp.dtype(coarsest).itemsize > 2:
        return ""
    return (
        f"The check could not be made: the forward pass computes in {coarsest} whatever the precision of its "
        "parameters is, and differences drown in that rounding. Switch that off for the diagnosis."
    )


def _bent(candidate: Candidate, site: int, own: Own) -> str:
    names = candidate.doubled.program.network.names
    first = min(candidate.agreements)
    where = f"h_{first}" if first == site else f"h_{first} to h_{site}"
    last = site == len(names)
    place = "what comes after the last block" if last else f"block {site + 1} ({names[site]})"
    beyond = "" if last else f" and agree with it at h_{site + 1}"
    earlier = ", and what comes before may too" if site else ""
    error = max(each.error for each in candidate.agreements.values() if each.error == each.error)
    return (
        "The gradient that jax.grad gives is not that of the network: finite differences of the loss contradict it at "
        f"{where} (error {written(error)} of its size){beyond}, so {place} cuts or replaces it"
        f"{_calls(candidate, site)}{earlier}. {TWIN} {KEEP} {WITHOUT}"
    )


def _calls(candidate: Candidate, site: int) -> str:
    """What was seen there that may be the cause."""
    doubled, network = candidate.doubled, candidate.doubled.program.network
    if not isinstance(network, Composed):
        found = suspects(doubled.found.jaxpr, None)
    else:
        with doubled.precision():
            behind = [
                doubled.program.found(doubled.params, doubled.batch.inputs, {at: candidate.seen.hiddens[at]}).jaxpr
                for at in (site, site + 1)
                if at < len(candidate.seen.hiddens)
            ]
        found = suspects(behind[0], behind[1] if len(behind) > 1 else None)
    if not isinstance(network, Composed):
        return f" (the network calls {', '.join(found)})" if found else ""
    return f" (it calls {', '.join(found)})" if found else ""
