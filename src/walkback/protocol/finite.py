"""NaN and Inf, in whichever field they are: what holds them makes its diagnostic fire. No torch.

Each diagnostic looks for NaN in the figures that it compares. A record has others: beside them, or without them. Here
they are all looked at, by name, so that a field which is added later is looked at too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from walkback.protocol.contradictions import field_of
from walkback.protocol.diagnostics.known import owners, quantities
from walkback.protocol.records import Measurements, Reading, State
from walkback.protocol.wording import listed
from walkback.protocol.words import NON_FINITE
from walkback.strictness import about_to_compare

NON_FINITE_SOURCE = "NaN and Inf"
"""In the provenance of a report: where NaN and Inf may come from, in sentences."""
BESIDE = frozenset({"alignment"})
"""Γ is reported and not judged: it is NaN by definition where a credit or a gradient is exactly zero. A credit that is
not finite is named in the warnings."""


def non_finite_fields(measured: Measurements) -> list[str]:
    """The fields that hold NaN or Inf, or that count samples which do, in the order of the record.

    Of `extra` its entries, by their own names.
    """
    kinds = {name: quantity.kind for name, quantity in quantities().items()}
    fields = {name: getattr(measured, name) for name in Measurements.model_fields if name != "extra"} | measured.extra
    return [
        name
        for name, value in fields.items()
        if name not in BESIDE and _is_broken(value, counted=kinds.get(name) == "broken")
    ]


def _is_broken(value: Any, counted: bool = False) -> bool:
    if isinstance(value, BaseModel):
        return any(_is_broken(getattr(value, name)) for name in type(value).model_fields)
    if isinstance(value, dict):
        return any(map(_is_broken, value.values()))
    if isinstance(value, tuple):
        return any(_is_broken(entry, counted) for entry in value)
    if counted:
        return bool(value)
    return isinstance(value, float) and not math.isfinite(value)


def firing_on_non_finite(measured: Measurements, readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings, where each one that has a NaN or Inf in any of its fields fires on it."""
    found: dict[str, list[str]] = {}
    letters = {reading.letter for reading in readings}
    for name in non_finite_fields(measured):
        owner = owners().get(field_of(name), "")
        # What belongs to no diagnostic that is read here is told under the first.
        found.setdefault(owner if owner in letters else readings[0].letter, []).append(name)
    return tuple(_fired(r, found[r.letter]) if r.letter in found else r for r in readings)


def _fired(reading: Reading, fields: Sequence[str]) -> Reading:
    if reading.state is State.FIRE and reading.reason == NON_FINITE:
        return reading
    named = listed(fields)
    about_to_compare(math.nan, f"the threshold of ({reading.letter}) {reading.name}: {named}")
    verb = "hold" if len(fields) > 1 else "holds"
    told = {
        "state": State.FIRE,
        "reason": NON_FINITE,
        "sentence": f"{named} {verb} NaN or Inf: the network has diverged, and no other value of it means anything.",
        "interval": None,
        "fragile": False,
        "case": "",
    }
    return reading.model_copy(update=told)
