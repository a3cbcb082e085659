"""What no network can have measured: figures out of their range, or at odds with each other. No torch.

A record that contradicts itself is refused, whichever way it came to be: no verdict on it would mean anything. NaN and
Inf are no contradictions. They are what a diverged network measures, and `protocol.finite` makes them fire.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from walkback.protocol.drift_share import GROUP_SIZE

if TYPE_CHECKING:
    from walkback.protocol.records import Alignment, Interval, Measurements

ROUNDING = 1e-4
"""By which a cosine may leave [−1, 1], and two figures of one thing may differ: traces keep six digits."""

PRINTED = 5e-4
"""By which a share may differ from an accuracy that was copied from a page: per cents with one decimal."""

SITE_NORM = re.compile(r"([hg])_(\d{1,6})")
"""The name, in `extra`, of a norm at one site of some."""
NORMS = {"h": "residual_norms", "g": "bp_grad_norms"}
"""The field that holds such norms where every site is known, by their letter."""

MOST = 2**53
"""Up to which a count is told apart from its neighbours as a float; nobody has counted further."""
WRONG_GRADIENT = 0.3
"""The error against finite differences from which a gradient is wrong, whatever the step size."""

_COUNTED = (
    "samples", "tokens", "classes", "headline_samples", "headline_answers", "frozen_baseline_samples",
    "frozen_baseline_answers", "last_site", "stability_layer", "site_numbers",
)  # fmt: skip
_NO_REFERENCE = ("error_size", "alignment")
"""Quantities of diagnostics of the gradient that do not rest on the reference alone."""
_NULL_AT_SITES = ("site_means", "site_sds", "site_z")


def field_of(name: str) -> str:
    """The field that a name of `extra` would be part of; of anything but the norm at one site, the name itself."""
    at = SITE_NORM.fullmatch(name)
    return NORMS[at[1]] if at is not None else name


def contradictions(measured: Measurements) -> Iterator[str]:
    """What is wrong with the measurements, a sentence each; nothing where they can be true."""
    from walkback.protocol.diagnostics.known import quantities

    declared = quantities().values()
    for name in (*_COUNTED, *(q.name for q in declared if q.kind in ("count", "broken"))):
        yield from _too_many(name, measured.value_of(name))
    yield from _zeros(measured)
    norms = {q.name: measured.value_of(q.name) for q in declared if q.kind == "norm"}
    norms |= {f"extra.{name}": value for name, value in measured.extra.items() if SITE_NORM.fullmatch(name)}
    for name, value in norms.items():
        yield from (f"{name} holds {x}; a norm is 0 or more" for x in _finite(value) if x < 0)
    for quantity in declared:
        if quantity.kind == "cosine" and quantity.name != "alignment":
            yield from _beyond_one(quantity.name, measured.value_of(quantity.name))
    yield from (f"perplexity is {x}; it is 1 or more" for x in _finite(measured.perplexity) if x < 1 - ROUNDING)
    if measured.classes is not None and measured.classes < 2:
        yield f"classes is {measured.classes}; there are 2 or more to choose from"
    at_sites = [q.name for q in declared if q.per_site and q.kind != "broken" and q.name != "alignment"]
    yield from _samples(measured, at_sites)
    yield from _broken_samples(measured)
    yield from _sites(measured, at_sites)
    yield from _reference(measured)
    yield from _answers(measured)
    yield from _stabilities(measured)
    for quantity in declared:
        if quantity.interval:
            found = measured.value_of(quantity.name), quantity.interval, measured.value_of(quantity.interval)
            yield from _intervals(quantity.name, *found)
        if quantity.mean_interval:
            mean = _mean_behind_first(measured.value_of(quantity.name))
            found = mean, quantity.mean_interval, measured.value_of(quantity.mean_interval)
            yield from _intervals(f"the mean of {quantity.name}", *found)
    if measured.alignment is not None:
        yield from _alignment(measured.alignment)


def _finite(value: Any) -> Iterator[float]:
    """The finite numbers of a figure, or of one figure per site."""
    values = value if isinstance(value, tuple) else (value,)
    return (x for x in values if x is not None and math.isfinite(x))


def _beyond_one(name: str, value: Any) -> Iterator[str]:
    for x in _finite(value):
        if abs(x) > 1 + ROUNDING:
            yield f"{name} holds {x}, expected a cosine or a share in [-1, 1]"


def _too_many(name: str, value: Any) -> Iterator[str]:
    for count in value if isinstance(value, tuple) else (value,):
        if count is not None and abs(count) > MOST:
            yield f"{name} holds a count of more than 2**53"


def _zeros(measured: Measurements) -> Iterator[str]:
    norms = measured.residual_norms
    if norms and all(norm == 0 for norm in norms):
        yield (
            "residual_norms are 0 at every site: a stream of zeros is not a measurement. Check the inputs, and which "
            "blocks were measured"
        )


def _samples(measured: Measurements, at_sites: Iterable[str]) -> Iterator[str]:
    samples, groups = measured.samples, measured.groups
    if samples == 0 and any(measured.value_of(name) is not None for name in at_sites):
        yield "samples is 0, but there are figures at the sites; they rest on 1 sample or more"
    directed = measured.cross_batch_stability is not None or measured.site_stabilities is not None
    if samples is not None and 0 < samples < 2 * GROUP_SIZE and directed:
        yield f"samples is {samples}, but there is a (c), which compares 2 groups of {GROUP_SIZE} samples or more"
    if samples == 1 and measured.drift_shares is not None:
        yield "samples is 1, but there are drift_shares, which compare distinct samples"
    if groups is not None and groups < 2 and directed:
        yield f"groups is {groups}, but there is a (c), which compares 2 groups of {GROUP_SIZE} samples or more"
    if samples is not None and groups is not None and groups * GROUP_SIZE > samples:
        yield f"groups is {groups} of {GROUP_SIZE} samples, and samples is {samples}"


def _broken_samples(measured: Measurements) -> Iterator[str]:
    for name in ("nonfinite_hiddens", "nonfinite_grads", "nonfinite_logits"):
        value = getattr(measured, name)
        for count in value if isinstance(value, tuple) else (value or 0,):
            if count < 0 or (measured.samples is not None and count > measured.samples):
                most = "" if measured.samples is None else f" to {measured.samples}, the number of samples"
                yield f"{name} holds {count}, expected a count from 0{most}"


def _sites(measured: Measurements, at_sites: Iterable[str]) -> Iterator[str]:
    numbers, last = measured.site_numbers, measured.last_site
    count = next((len(at) for name in at_sites if isinstance(at := measured.value_of(name), tuple)), None)
    if numbers is None:
        if last is not None and count is not None and last != count - 1:
            yield f"last_site is {last}, and there are figures of {count} sites without the numbers of those"
        return
    if any(number < 0 for number in numbers) or any(after <= before for before, after in pairwise(numbers)):
        yield f"site_numbers are {list(numbers)}, expected numbers from 0 on, each larger than the one before"
    elif last is not None and numbers and numbers[-1] > last:
        yield f"site_numbers go up to {numbers[-1]}, and last_site is {last}"


def _reference(measured: Measurements) -> Iterator[str]:
    """A gradient that is not the network's, or none at all, has no figures."""
    check = measured.reference_check
    if check is None:
        return
    if check.directions < 0 or check.kinks_discarded < 0 or any(site < 0 for site in check.sites):
        yield "reference_check counts below 0"
    if check.error is not None and check.error < 0:
        yield f"reference_check.error is {check.error}; it is 0 or more"
    if check.passed and (check.candidate == "none" or (check.error is not None and check.error > WRONG_GRADIENT)):
        yield f"reference_check has passed, with the candidate {check.candidate!r} and an error of {check.error}"
    if check.passed is False or check.candidate == "none":
        found = [name for name in _of_gradients() if measured.value_of(name) is not None]
        if found:
            yield f"reference_check says that there is no true gradient, but there is {found[0]}"


def _answers(measured: Measurements) -> Iterator[str]:
    """A baseline's right answers that are not those behind its accuracy, where both are of as many samples."""
    for name in ("frozen_baseline", "random_baseline"):
        accuracy, correct = getattr(measured, f"{name}_acc"), getattr(measured, f"{name}_correct")
        if accuracy is None or correct is None or getattr(measured, f"{name}_samples") not in (None, correct.samples):
            continue
        if abs(accuracy - correct.share) > PRINTED:
            yield f"{name}_acc is {accuracy}, and {name}_correct holds {correct.share:.6g}; expected the same share"


def _of_gradients() -> Iterator[str]:
    """The names of what is measured against the reference gradient."""
    from walkback.protocol.diagnostics.known import known

    for one in known().values():
        if one.needs_gradient:
            yield from (q.name for q in one.quantities if q.kind in ("norm", "cosine") and q.name not in _NO_REFERENCE)


def _stabilities(measured: Measurements) -> Iterator[str]:
    judged, sites, layer = measured.cross_batch_stability, measured.site_stabilities, measured.stability_layer
    if judged is None or sites is None or layer is None or layer >= len(sites):
        return
    # NaN differs from nothing here, and fires.
    if abs(judged - sites[layer]) > ROUNDING:
        yield f"cross_batch_stability is {judged}, and site_stabilities holds {sites[layer]} for the same site {layer}"


def _intervals(name: str, figures: Any, called: str, intervals: Any) -> Iterator[str]:
    """An interval whose ends are the wrong way round, or that its own figure lies outside of."""
    if intervals is None:
        return
    if figures is None:
        yield f"there is {called} without {name}"
        return
    pairs = zip(figures, intervals, strict=False) if isinstance(figures, tuple) else [(figures, intervals)]
    for figure, interval in pairs:
        if not _encloses(interval, figure):
            yield f"{called} holds {interval.low} to {interval.high}, and {name} is {figure} there"


def _mean_behind_first(values: Any) -> float | None:
    from walkback.protocol.functional_fields import mean_behind_first

    return None if values is None else mean_behind_first(values)


def _encloses(interval: Interval, figure: float) -> bool:
    """Whether it may: NaN compares false, and so lies nowhere outside."""
    room = ROUNDING * abs(figure) if math.isfinite(figure) else 0.0
    outside = interval.low > interval.high or figure < interval.low - room or figure > interval.high + room
    return not outside


def _alignment(alignment: Alignment) -> Iterator[str]:
    """Γ is made of cosines: of NaN, for a credit or a gradient that is zero, but never of more than 1."""
    for name in ("sites", "site_medians", "deep", "neighbours"):
        value = getattr(alignment, name)
        for x in value if isinstance(value, tuple) else (value,):
            if x is not None and abs(x) > 1 + ROUNDING:
                yield f"alignment.{name} holds {x}, expected a cosine in [-1, 1]"
    null = alignment.null
    listed = {"site_medians": alignment.site_medians}
    listed |= {} if null is None else {f"null.{name}": getattr(null, name) for name in _NULL_AT_SITES}
    for name, values in listed.items():
        if values is not None and alignment.sites is not None and len(values) != len(alignment.sites):
            yield f"alignment.{name} has {len(values)} figures, and alignment.sites {len(alignment.sites)}"
