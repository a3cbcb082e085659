"""How often panels were right on the bench, as shipped with `calibrated`, and whether a network is of its kind."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from walkback.protocol.records import Measurements
from walkback.protocol.schema import Record
from walkback.protocol.words import Outcome


class Counted(Record):
    """k of n, with the bound that it was scored with."""

    count: int
    of: int
    bound: float
    """One-sided, 95 %, Clopper and Pearson: from above for alarms, from below for what was found."""


class HalfRates(Record):
    """Of one half of the bench."""

    flagged: Counted
    """Healthy networks."""
    incomplete: int
    """Healthy networks on which it did not decide."""
    found: dict[str, Counted]
    """By fault, of those that a decider is meant for."""
    unseen: dict[str, Counted]
    """By fault, of those that no decider is meant for."""


class PanelRates(Record):
    """Of a published panel on the half that is held; no threshold of it was fitted here."""

    flagged: Counted
    """Healthy networks."""
    found: Counted
    """Networks with a fault that a diagnostic is meant for."""

    def in_words(self) -> str:
        """The rates in a sentence."""
        return (
            f"On networks of known state (docs/VALIDITY.md) this panel flagged {self.flagged.count} of "
            f"{self.flagged.of} healthy ones and found {self.found.count} of {self.found.of} faulty ones."
        )


class Range(Record):
    """The sizes and kinds of the bench's networks."""

    blocks: tuple[int, int]
    widths: tuple[int, int]
    classes: tuple[int, int]
    samples: tuple[int, int]


class Rates(Record):
    """What was counted on each half; None for one that was not scored."""

    version: int
    """Of the panel that was scored."""
    range: Range
    fit: HalfRates | None = None
    held: HalfRates | None = None
    published: dict[str, PanelRates] = Field(default_factory=dict)
    """By panel, those that are not fitted here."""

    @staticmethod
    def load(path: Path) -> Rates:
        """From the shipped file."""
        return _loaded(path, path.stat().st_mtime_ns)

    def in_words(self, outcome: Outcome, measured: Measurements) -> str:
        """The rates behind a verdict; that none is known where the network is of another size or kind."""
        if outside := outside_of(self.range, measured):
            return f"No error rate is known for this network: {outside}."
        half = self.held or self.fit
        if half is None:
            return "No error rate is known: the bench was not scored with these thresholds."
        flagged = half.flagged
        at_most = f"at most {100 * flagged.bound:.1f} %, one-sided 95 % bound"
        which = (
            f"Of {flagged.of} healthy networks of the bench {flagged.count} were flagged ({at_most})"
            if self.held is not None
            else f"Known only on the half that the thresholds were fitted on, where {flagged.count} of {flagged.of} "
            "healthy networks were flagged; the other half was not opened yet"
        )
        found = sum(each.count for each in half.found.values()), sum(each.of for each in half.found.values())
        return f"{which}. Of {found[1]} networks with one of {len(half.found)} faults {found[0]} were found."


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> Rates:
    del changed  # a file that was written anew is read anew
    return Rates.model_validate(json.loads(path.read_text("utf-8")))


def outside_of(known: Range, measured: Measurements) -> str:
    """In what a network lies outside of the bench, in a clause; empty where it does not."""
    if measured.headline_score is not None or measured.frozen_baseline_score is not None:
        return "its score is no accuracy, and the bench's are"
    if measured.perplexity is not None or measured.headline_answers is not None:
        return "its samples have several answers each, and the bench's have one"
    blocks = _blocks(measured)
    sizes = {
        "blocks": (blocks, known.blocks),
        "classes": (measured.classes, known.classes),
        "samples": (measured.samples or measured.headline_samples, known.samples),
    }
    unknown = [name for name, (value, _) in sizes.items() if value is None]
    if unknown:
        return f"the number of its {' and '.join(unknown)} is not on record"
    parts = [
        f"it has {value:,} {name}, and the bench's have {low:,} to {high:,}"
        for name, (value, (low, high)) in sizes.items()
        if value is not None and not low <= value <= high and not (name == "samples" and value > high)
    ]
    widths = measured.readouts.widths if measured.readouts is not None else ()
    if widths and not known.widths[0] <= max(widths) <= known.widths[1]:
        parts.append(f"its sites have up to {max(widths):,} features, and the bench's up to {known.widths[1]:,}")
    return "; ".join(parts)


def _blocks(measured: Measurements) -> int | None:
    if measured.last_site is not None:
        return measured.last_site
    sites = measured.sites or measured.residual_norms or measured.bp_grad_norms
    return len(sites) - 1 if sites else None
