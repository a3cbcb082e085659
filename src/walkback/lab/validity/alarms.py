"""Which diagnostics a panel's false alarms are of: counted on the healthy networks that it fails. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from walkback.lab.validity.quantities import with_name
from walkback.lab.validity.scoring import flagged, healthy, without_bp
from walkback.lab.validity.table import Row
from walkback.present.page import Grid, Heading


class Cause(NamedTuple):
    """A diagnostic behind false alarms."""

    letter: str
    fires: int
    """On how many of the flagged networks."""
    alone: int
    """On how many of them nothing else does."""
    by_bp: int
    """How many of those that it fires on were trained by backpropagation."""


def causes(rows: Sequence[Row], rule: str) -> list[Cause]:
    """Each diagnostic that decided a false alarm, the most frequent first."""
    behind = [(row.decided_by[rule].split("+"), row.method == "bp") for row in healthy(rows) if row.flagged(rule)]
    letters = {letter for fired, _ in behind for letter in fired}
    found = [
        Cause(
            letter,
            sum(letter in fired for fired, _ in behind),
            sum(fired == [letter] for fired, _ in behind),
            sum(letter in fired and bp for fired, bp in behind),
        )
        for letter in letters
    ]
    return sorted(found, key=lambda cause: (-cause.fires, cause.letter))


def what_flags(rows: Sequence[Row], rule: str) -> list[str | Grid | Heading]:
    """What a panel flags healthy networks by, and that backpropagation's are among them."""
    every, other = flagged(healthy(rows), rule), flagged(without_bp(rows), rule)
    lines = [
        [with_name(cause.letter), str(cause.fires), str(cause.alone), str(cause.by_bp)] for cause in causes(rows, rule)
    ]
    return [
        Heading(f"What {rule} flags healthy networks by", 3),
        f"It flags {every.hits} of {every.of} healthy networks: {every.hits - other.hits} of the "
        f"{every.of - other.of} that backpropagation trained, and {other.hits} of the other {other.of}. A network can "
        "be flagged by several diagnostics.",
        Grid(("diagnostic", "flagged by it", "by it alone", "of these, trained by backpropagation"), lines, "lrrr"),
    ]
