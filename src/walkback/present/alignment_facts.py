"""What a report says of the alignment Γ: block by block first, as a mean over blocks can be due to one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from walkback.present.in_panel import in_its_words
from walkback.present.numbers import count, signed, written
from walkback.present.places import in_block_names, place
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened
from walkback.protocol.carrying import in_sentences
from walkback.protocol.records import Alignment, DiagnosticReport, Measurements, NullAlignment

MEANING = "alignment Γ, the cosine of the credit with the true gradient"
_MANY = 8
_MOST_SITES, _ENDS = 17, 4
"""Sites that are listed in one line, and those at each end where there are more."""


def alignment_facts(report: DiagnosticReport) -> list[tuple[str, str]]:
    """Every block, deep mean, null, orders, neighbours and marks; or one row that says why Γ is not there."""
    alignment = report.alignment
    if alignment is None:
        return [("Γ", "not measured: no credit rule was given")]
    if alignment.unavailable:
        return [("Γ", f"N/A: {shortened(alignment.unavailable, NOTE_LENGTH)}")]
    facts = [("per block", per_block(report, alignment.sites))] if alignment.sites else []
    facts += [("carried by one", in_block_names(report, words))] if (words := in_sentences(alignment.sites)) else []
    facts += [("deep mean", _deep(alignment)), ("null", _null(alignment.null, alignment.no_null))]
    facts += [("aggregation", _orders(alignment.orders))] if alignment.orders else []
    facts += [("neighbouring credits", _neighbours(alignment.neighbours))] if alignment.neighbours else []
    facts += (
        [("read with care", shortened(in_its_words(report, alignment.mark), NOTE_LENGTH))] if alignment.mark else []
    )
    return facts


def per_block(report: Measurements, sites: Sequence[float]) -> str:
    """Γ at what the first block reads and at what each block writes; of a deep network the blocks at both ends."""
    last = len(sites) - 1
    shown = list(range(len(sites))) if last < _MOST_SITES else [*range(_ENDS), *range(last + 1 - _ENDS, last + 1)]
    values = [f"{place(report, site)} {signed(sites[site])}" for site in shown]
    if len(shown) < len(sites):
        values.insert(_ENDS, f"… {len(sites) - len(shown)} more …")
    return ", ".join(values)


def _deep(alignment: Alignment) -> str:
    if alignment.deep is None:
        return "not measured"
    last = len(alignment.sites) - 1 if alignment.sites else 0
    return f"{signed(alignment.deep)}" + (f" over the outputs of {last} blocks" if last > 1 else "")


def _null(null: NullAlignment | None, why_none: str) -> str:
    if null is None:
        return f"none: {shortened(why_none, NOTE_LENGTH)}" if why_none else "not measured"
    spread = f"{signed(null.deep_mean)} ± {written(null.deep_sd)} over {null.draws:,} fresh draws of the feedback"
    return f"{spread}; z = {signed(null.deep_z)}"


def _orders(orders: dict[str, float]) -> str:
    """The two ends of what the valid orders of aggregation give, by name, and whether the sign survives."""
    finite = {name: value for name, value in orders.items() if math.isfinite(value)}
    if not finite:
        return f"none of {count(len(orders), 'way')} to average over samples and sites gives a finite number"
    low, high = min(finite, key=finite.__getitem__), max(finite, key=finite.__getitem__)
    ends = " to ".join(f"{signed(finite[name])} ({middle_out(name, NAME_LENGTH)})" for name in (low, high))
    flips = "; the sign depends on the way" if finite[low] < 0 < finite[high] else ""
    return f"{ends}, over {count(len(orders), 'way')} to average over samples and sites{flips}"


def _neighbours(cosines: Sequence[float]) -> str:
    if len(cosines) <= _MANY:
        return "cosine of the credit at each site with that at the next: " + ", ".join(signed(v) for v in cosines)
    finite = [v for v in cosines if math.isfinite(v)]
    lost = f", {len(cosines) - len(finite)} not finite" if len(finite) < len(cosines) else ""
    if not finite:
        return f"{len(cosines)} cosines, none finite"
    ends = f"from {signed(min(finite))} to {signed(max(finite))}"
    return f"{len(cosines)} cosines, of the credit at each site with that at the next, {ends}{lost}"
