"""The numbers of a record that could tell a fault: by name, with the side that fires. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walkback.lab.validity.record import NetworkRecord
from walkback.protocol.diagnostics.known import by_letter

Readings = Mapping[str, float | None]


@dataclass(frozen=True)
class Candidate:
    """A quantity of a record."""

    name: str
    of: Callable[[NetworkRecord, Readings], float | None]
    high: bool
    """Whether large values are those that fire."""
    found_by: tuple[str, ...]
    """How conditions name what is meant to find them."""
    letter: str = ""
    """Of the diagnostic that reads it; empty where none does."""

    @property
    def shown(self) -> str:
        """What a page calls it: the letter and the name of its diagnostic. Tables on record keep `name`."""
        return with_name(self.letter) if self.letter else self.name


def with_name(letter: str) -> str:
    """`(bg) block growth since init`: a diagnostic as a page names it."""
    found = by_letter(letter)
    return f"({letter}) {found.title}" if found is not None else f"({letter})"


def over_readout(record: NetworkRecord) -> float | None:
    """Headline accuracy minus that of the ridge readout of h_0, fitted on the training split: the bar to beat."""
    first = record.readouts.accuracies[0] if record.readouts is not None else None
    return None if first is None else record.headline - first


def _read(name: str, letter: str, high: bool, *found_by: str) -> Candidate:
    return Candidate(name, lambda record, readings: readings.get(letter), high, found_by, letter)


QUANTITIES: tuple[Candidate, ...] = (
    _read("(a) growth of one block", "a", True, "residual_growth"),
    _read("(b) last gradient", "b", False, "gradient_floor"),
    _read("(c) direction drift", "c", True),
    _read("(d) frozen margin", "d", False, "depth_gain"),
    _read("(h) depth gain", "h", False, "depth_gain"),
    _read("(r) readout gain", "r", False, "linear_readouts"),
    _read("(w) gain over the stem", "w", False, "linear_readouts"),
    _read("(hg) head gap", "hg", False, "head_gap"),
    _read("(i) growth from init", "i", True, "growth_from_init"),
    _read("(bg) block growth since init", "bg", True, "block_growth"),
    _read("(t) total growth", "t", True, "residual_growth", "growth_from_init"),
    _read("(s) gradient per error", "s", False, "gradient_floor", "reference_check"),
    _read("(m) least movement", "m", False, "movement"),
    _read("(ib) idle block", "ib", False, "idle_block"),
    _read("(u) update provenance", "u", False, "update_provenance"),
    _read("(di) disguise", "di", True, "layer_cosine"),
    _read("(rd) reference doubt", "rd", True, "reference_check"),
    _read("(hc) headline check", "hc", True, "headline_check"),
    _read("(o) overlap", "o", True, "overlap"),
    Candidate("accuracy − readout of h_0", lambda record, readings: over_readout(record), False, ("linear_readouts",)),
)
BY_NAME = {candidate.name: candidate for candidate in QUANTITIES}
