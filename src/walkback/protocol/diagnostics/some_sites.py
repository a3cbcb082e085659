"""(a) and (b) from norms at some of the sites, which a record keeps under `extra` as h_0, h_4, g_2: what they prove.

Between two known sites i < j the largest growth of a block is at least the geometric mean (‖h_j‖/‖h_i‖)^(1/(j−i)), so
a mean above the threshold proves FIRE. Nothing bounds the largest growth from above: a block may multiply the stream by
any factor if others shrink it again. So these numbers never prove PASS, and what is not proven is UNDECIDED, with how
much the other blocks would have to do for (a) to fire. (b) at another site than the deepest is a proxy, named as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from walkback.protocol.contradictions import SITE_NORM
from walkback.protocol.diagnostics.base import ReadingMaker
from walkback.protocol.records import Measurements, Reading, State, growth
from walkback.protocol.wording import written


def norms_at_some(measured: Measurements, letter: str) -> dict[int, float]:
    """The norms that `extra` holds for one letter, h or g, by site, in their order."""
    named = {name: SITE_NORM.fullmatch(name) for name in measured.extra}
    found = {int(at[2]): measured.extra[name] for name, at in named.items() if at is not None and at[1] == letter}
    return {site: norm for site, norm in sorted(found.items()) if isinstance(norm, float)}


def deepest_norm(measured: Measurements, letter: str) -> float | None:
    """The norm at the deepest site that is known; None where none is."""
    some = norms_at_some(measured, letter)
    return some[max(some)] if some else None


def growth_between_ends(measured: Measurements) -> float | None:
    """‖h_L‖ / ‖h_0‖ of a record that has both and lacks sites between them; None of every other."""
    some = norms_at_some(measured, "h")
    first, last = some.get(0), some.get(measured.last_site) if measured.last_site else None
    return growth(first, last) if first is not None and last is not None else None


def growth_at_some(measured: Measurements, make: ReadingMaker, reason: str) -> Reading | None:
    """(a) from the sites that are known; None where there are none of them."""
    norms = norms_at_some(measured, "h")
    for site, norm in norms.items():
        if norm - norm != 0:
            return make.non_finite(f"h_{site} holds NaN or Inf", value=norm, site=site)
    if len(norms) < 2:
        return make.not_measured(f"‖h_{min(norms)}‖ alone was recorded, and growth needs two sites.") if norms else None
    means = [(growth(a, b) ** (1 / (j - i)), i, j) for (i, a), (j, b) in pairwise(norms.items())]
    largest, first, last = max(means)
    reading = make.judged(largest, reason=reason, fired=_proven(largest, first, last), passed="", site=last)
    if reading.state is State.FIRE:
        return reading
    sentence = _undecided(norms, make.threshold or 0.0, largest, first, last)
    return reading.model_copy(update={"state": State.UNDECIDED, "site": None, "sentence": sentence})


def _proven(mean: float, first: int, last: int) -> str:
    if last - first == 1:
        return f"Block {last} multiplies the median ‖h‖ by {written(mean)}: the residual stream exploded there."
    return (
        f"From site {first} to site {last} each block multiplies the median ‖h‖ by {written(mean)} in the geometric "
        "mean, and the largest by at least that: the residual stream exploded, in which of them is not known."
    )


def _undecided(norms: Mapping[int, float], threshold: float, mean: float, first: int, last: int) -> str:
    """What the bound does not prove, and what it would take for (a) to fire between the two sites."""
    bound = f"The largest growth of a block is at least {written(mean)}, the geometric mean from site {first} to {last}"
    # A stretch of one block is exact, so what hides a firing is another one; the longest hides most.
    blocks, ratio, i, j = max((j - i, growth(norms[i], norms[j]), i, j) for i, j in pairwise(norms))
    if blocks == 1:
        return f"{bound}; no stretch with both ends recorded holds more, and the sites beyond were not recorded."
    others, room = blocks - 1, ratio / threshold
    which = "the other block" if others == 1 else f"the other {others} together"
    needed = f"shrink it by {written(_inverse(room))}" if room < 1 else f"grow it by less than {written(room)}"
    return (
        f"{bound}. (a) could still fire: one of blocks {i + 1} to {j} would have to grow the stream by more than "
        f"{written(threshold)}, and {which} {needed}. Two sites never prove a pass."
    )


def _inverse(room: float) -> float:
    """1 / room; a stream that ended at zero has been shrunk without bound."""
    return 1 / room if room else float("inf")


def gradient_at_some(measured: Measurements, make: ReadingMaker) -> tuple[float, int, str] | Reading | None:
    """The gradient norm that (b) is read from, its site, and what that site is; None where there are none.

    A reading where a norm is not finite.
    """
    norms = norms_at_some(measured, "g")
    for site, norm in norms.items():
        if norm - norm != 0:
            return make.non_finite(f"g_{site} holds NaN or Inf", value=norm, site=site)
    if not norms:
        return None
    site, last = max(norms), measured.last_site
    if last is None:
        return norms[site], site, f"site {site}, the deepest that was recorded"
    return (
        norms[site],
        site,
        "the deepest site" if site == last else f"site {site}, a proxy for the deepest site {last}",
    )
