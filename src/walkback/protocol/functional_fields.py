"""What the functional tests found at every site, as fields of `Measurements`. No torch is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from walkback.protocol.functional_figures import FORMS, RATES, STEPS, Responses, groups_of, left_out_of, published_rho
from walkback.protocol.quantiles import normal_reach
from walkback.protocol.records import Interval
from walkback.protocol.uncertainty import LEVEL, jackknife_interval

if TYPE_CHECKING:
    from walkback.protocol.functional_figures import Array

    Told = tuple[Array, Array]
    """⟨a_l, εv⟩ and the change of the loss, each (B, M)."""

BY_DEFINITION = "0 by definition: a spread is under 1e-12"
OVER_GROUPS = "jackknife over groups of samples"
OVER_GROUPS_OF_ATANH = f"{OVER_GROUPS}, of atanh ρ"
OVER_SAMPLES = "normal, over samples"


def behind_first(sites: Sequence[Any]) -> Sequence[Any]:
    """The sites that a mean is taken over: those behind h_0, or h_0 where it is the only one."""
    return sites[1:] or sites


def mean_behind_first(values: Sequence[float]) -> float:
    """The mean over the sites behind h_0."""
    deep = behind_first(values)
    return math.fsum(deep) / len(deep)


def functional_fields(sites: Sequence[Responses]) -> dict[str, Any]:
    """ρ and the nudge, both of two kinds, at every site, and of their means behind h_0, with intervals."""
    plain = [_told(seen, "absolute", "raw") for seen in sites]
    scaled = [_told(seen, "relative", "unit_rms") for seen in sites]
    return {
        **_rhos("perturbation_rho", plain),
        **_rhos("scaled_rho", scaled),
        **_nudges("nudge", sites, "raw"),
        **_nudges("unit_nudge", sites, "unit_rms"),
    }


def _told(seen: Responses, step: str, form: str) -> Told:
    at = STEPS.index(step)
    return seen.epsilons[at] * seen.predicted[:, FORMS.index(form)], seen.changes[:, at]


def _rhos(name: str, told: Sequence[Told]) -> dict[str, Any]:
    rhos = [published_rho(*pair) for pair in told]
    return {
        name: rhos,
        f"{name}_intervals": _all_or_none([_jackknifed([pair]) for pair in told]),
        f"{name}_mean_interval": _jackknifed(behind_first(told)),
    }


def _nudges(name: str, sites: Sequence[Responses], form: str) -> dict[str, Any]:
    nudged = [seen.nudged[:, RATES.index(0.01), FORMS.index(form)] for seen in sites]
    return {
        name: [float(changes.mean()) for changes in nudged],
        f"{name}_intervals": _all_or_none(list(map(_normal, nudged))),
        f"{name}_mean_interval": _normal(np.mean(behind_first(nudged), axis=0)),
    }


def _jackknifed(told: Sequence[Told]) -> Interval | None:
    """The interval of the mean of ρ over some sites; the same samples are left out at each of them.

    By Fisher's transform: a correlation spreads further towards 0 than towards ±1, and an interval that is even to both
    sides holds a large one too seldom. One of ±1 has no transform, and is taken as it is.
    """
    whole = float(np.mean([published_rho(*pair) for pair in told]))
    left_out = np.mean([left_out_of(*pair, published_rho) for pair in told], axis=0)
    if whole == 0 and not left_out.any():
        return Interval(low=0.0, high=0.0, level=LEVEL, how=BY_DEFINITION)
    sizes = np.array([len(group) for group in groups_of(len(told[0][0]))], dtype=np.float64)
    if not (np.abs([whole, *left_out]) < 1).all():
        found = jackknife_interval(whole, left_out, sizes)
        return found and found.model_copy(update={"how": OVER_GROUPS})
    found = jackknife_interval(math.atanh(whole), np.arctanh(left_out), sizes)
    if found is None:
        return None
    low, high = math.tanh(found.low), math.tanh(found.high)
    return found.model_copy(update={"low": low, "high": high, "how": OVER_GROUPS_OF_ATANH})


def _normal(changes: Array) -> Interval | None:
    if len(changes) < 2:
        return None
    mean, reach = float(changes.mean()), normal_reach(LEVEL) * float(changes.std(ddof=1)) / len(changes) ** 0.5
    return Interval(low=mean - reach, high=mean + reach, level=LEVEL, how=OVER_SAMPLES)


def _all_or_none(intervals: Sequence[Interval | None]) -> list[Interval] | None:
    """One for each site; none where a site has too little to make one of."""
    known = [interval for interval in intervals if interval is not None]
    return known if len(known) == len(intervals) else None
