"""What a run's file says of the functional tests and of its training loss: the one place that reads them there.

A file holds several conventions of the tests. The published ones are steps of ε = 1e-3 as they are, η = 0.01, and
credit with RMS 1 in each sample, because the source study normalises the credit of every local method; a report of
`diagnose` has the credit as the method hands it over, and beside it that of RMS 1, for ρ with a step in proportion to
the stream. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from walkback.protocol.functional_fields import BY_DEFINITION, OVER_GROUPS, OVER_SAMPLES
from walkback.protocol.quantiles import normal_reach
from walkback.protocol.records import Interval, TrainingLoss
from walkback.protocol.uncertainty import LEVEL
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At

Path = tuple[str, ...]
RHO: Path = ("perturbation", "absolute", "credit", "unit_rms", "rho")
NUDGE: Path = ("nudge", "unit_rms", "0.01", "mean")
_PLAIN, _SCALED = ("perturbation", "absolute", "credit", "raw"), ("perturbation", "relative", "credit", "unit_rms")
_NUDGED, _UNIT = ("nudge", "raw", "0.01"), ("nudge", "unit_rms", "0.01")


def values_at(result: Mapping[str, Any], path: Path) -> list[float | None] | None:
    """One number for each site, None where a site has none; None where the file has no such list."""
    found: Any = result.get("functional")
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, list):
        return None
    return [float(value) if _is_number(value) else None for value in found]


def mean_over_deep_blocks(result: Mapping[str, Any], path: Path) -> float | None:
    """The mean over h_1 … h_{L−1}, which the blocks behind the first read; None where one of them has no number."""
    deep = (values_at(result, path) or [])[1:-1]
    known = [value for value in deep if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(deep) else None


def _whole(result: Mapping[str, Any], path: Path) -> list[float] | None:
    """The numbers of a list that has one for each site."""
    found = values_at(result, path) or []
    known = [value for value in found if value is not None]
    return known if known and len(known) == len(found) else None


def training_loss(trace: Iterable[Mapping[str, Any]]) -> TrainingLoss | None:
    """Of the first and the last epoch, by the lines of a run's trace; None where either is not known."""
    losses, found = LossCourse(), None
    for line in trace:
        loss: Any = line.get("loss")
        found = losses.see(At(epoch=line.get("epoch")), float(loss) if _is_number(loss) else None)
    return found


def fields_on_record(result: Mapping[str, Any]) -> dict[str, Any]:
    """ρ, nudge and training loss as fields of `Measurements`, as far as a run's file has them."""
    fields: dict[str, Any] = {"training_loss": training_loss(result.get("trace") or ())}
    tested = result.get("functional")
    plain, scaled, nudged, unit = (_whole(result, (*path, name)) for path, name in _COLUMNS)
    if plain is None or scaled is None or nudged is None or unit is None:
        reason = _why_not(tested) if isinstance(tested, Mapping) else ""
        return fields | {"no_functional": reason}
    return fields | {
        "perturbation_rho": tuple(plain),
        "perturbation_rho_intervals": _jackknifed(result, _PLAIN, plain),
        "scaled_rho": tuple(scaled),
        "scaled_rho_intervals": _jackknifed(result, _SCALED, scaled),
        "nudge": tuple(nudged),
        "nudge_intervals": _normal(nudged, _whole(result, (*_NUDGED, "standard_error"))),
        "unit_nudge": tuple(unit),
        "unit_nudge_intervals": _normal(unit, _whole(result, (*_UNIT, "standard_error"))),
        "functional_samples": tested.get("samples") if isinstance(tested, Mapping) else None,
    }


_COLUMNS = ((_PLAIN, "rho"), (_SCALED, "rho"), (_NUDGED, "mean"), (_UNIT, "mean"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _why_not(tested: Mapping[str, Any]) -> str:
    sites = tested.get("unmeasured_sites")
    first = next(iter(sites.items()), None) if isinstance(sites, Mapping) else None
    return str(tested.get("unmeasured") or (f"site {first[0]}: {first[1]}" if first else "the file lacks values"))


def _jackknifed(result: Mapping[str, Any], path: Path, rhos: Sequence[float]) -> tuple[Interval, ...] | None:
    """A file holds the interval of the correlation; where ρ is 0 by its definition, that is no interval of it."""
    low, high = (_whole(result, (*path, end)) for end in ("low", "high"))
    if low is None or high is None or not len(low) == len(high) == len(rhos):
        return None
    return tuple(
        Interval(low=0.0, high=0.0, level=LEVEL, how=BY_DEFINITION)
        if rho == 0
        else Interval(low=below, high=above, level=LEVEL, how=OVER_GROUPS)
        for rho, below, above in zip(rhos, low, high, strict=True)
    )


def _normal(means: Sequence[float], errors: Sequence[float] | None) -> tuple[Interval, ...] | None:
    if errors is None or len(errors) != len(means):
        return None
    reach = normal_reach(LEVEL)
    return tuple(
        Interval(low=mean - reach * error, high=mean + reach * error, level=LEVEL, how=OVER_SAMPLES)
        for mean, error in zip(means, errors, strict=True)
    )
