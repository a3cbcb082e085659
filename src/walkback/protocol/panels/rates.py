"""How often panels were right on the bench, as shipped with `calibrated`, and whether a network is of its kind."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import comb
from pathlib import Path

from pydantic import Field

from walkback.protocol.claimed_rule import is_on_the_bench
from walkback.protocol.quantiles import HALVINGS
from walkback.protocol.records import Measurements
from walkback.protocol.schema import Record, shortened
from walkback.protocol.uncertainty import LEVEL
from walkback.protocol.wording import listed, were

NAMED = {"widths": "features at a site"}
"""A size in words, where its name does not say it."""
ONE_OF = {"blocks": "block", "widths": "feature at a site", "samples": "sample"}
"""The same of one; there is no network with one class."""
FEW = 0.5
"""Of a fault of which a smaller share is found it is said that it would mostly be missed."""


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
    local: Counted
    """Those of them that were not trained by backpropagation."""
    incomplete: int
    """Healthy networks on which it did not decide."""
    found: dict[str, Counted]
    """By fault, of those that a decider is meant for."""
    unseen: dict[str, Counted]
    """By fault, of those that no decider is meant for."""
    fired: dict[str, dict[str, int]]
    """By condition, how often which deciders fired together: `{"healthy": {"": 297, "bg": 2, "a+i+t+bg": 1}}`."""

    def seen_by(self, letters: Collection[str], condition: str) -> int:
        """How many networks of a condition these deciders alone would have failed."""
        together = self.fired[condition].items()
        return sum(number for names, number in together if not set(letters).isdisjoint(names.split("+")))


class PanelRates(Record):
    """Of a published panel on the half that is held; no threshold of it was fitted here."""

    flagged: Counted
    """Healthy networks."""
    local: Counted
    """Those of them that were not trained by backpropagation."""
    found: Counted
    """Networks with a fault that a diagnostic is meant for."""

    def in_words(self, known: Range, measured: Measurements, missing: Sequence[str] = ()) -> str:
        """The rates in a sentence, and whether the network is like those that they were counted on.

        `missing` names what decides and was not measured.
        """
        if outside := outside_of(known, measured):
            return f"No error rate of this panel is known for this network: {outside}."
        said = (
            f"On networks of known state (docs/VALIDITY.md) this panel flagged {self.flagged.count} of "
            f"{self.flagged.of} healthy ones ({self.local.count} of the {self.local.of} that backpropagation did not "
            f"train) and found {self.found.count} of {self.found.of} faulty ones."
        )
        if missing:
            said += f" On those, all that decides was measured; here {were(missing)} not."
        unknown = not_on_record(measured)
        return f"{said} Whether this network is of their size is not known: {unknown}." if unknown else said


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

    def in_words(self, measured: Measurements, seen: Collection[str] | None = None) -> str:
        """The rates behind a verdict; that none is known where the network is of another size or kind.

        `seen` are the letters of the deciders that were measured; None for all of them.
        """
        if outside := outside_of(self.range, measured) or not_on_record(measured):
            return f"No error rate is known for this network: {outside}."
        half = self.held or self.fit
        if half is None:
            return "No error rate is known: the bench was not scored with these thresholds."
        flagged = half.flagged.count if seen is None else half.seen_by(seen, "healthy")
        if self.held is None:
            return (
                f"Known only on the half that the thresholds were fitted on, where {flagged} of {half.flagged.of} "
                f"healthy networks {_were(flagged)} flagged; the other half was not opened yet. {_found(half, seen)}"
            )
        return f"{_flagged(half, flagged, seen)} {_found(half, seen)}"


def _flagged(half: HalfRates, flagged: int, seen: Collection[str] | None) -> str:
    """How many healthy networks what was measured here flags, with the bound of that count."""
    bound = half.flagged.bound if flagged == half.flagged.count else most_of(flagged, half.flagged.of)
    by = "" if seen is None else " by what was measured here"
    said = f"{flagged} observed in {half.flagged.of}, at most {100 * bound:.1f} % with 95 % confidence"
    if seen is None:
        said += f"; {half.local.count} of the {half.local.of} that backpropagation did not train"
    return f"Of {half.flagged.of} healthy networks of the bench {flagged} {_were(flagged)} flagged{by} ({said})."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def most_of(count: int, of: int) -> float:
    """The one-sided 95 % bound on a share of which so many were observed (Clopper and Pearson): found by halving."""
    if count >= of:
        return 1.0
    low, high = count / of, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tail = sum(comb(of, k) * middle**k * (1 - middle) ** (of - k) for k in range(count + 1))
        low, high = (middle, high) if tail > 1 - LEVEL else (low, middle)
    return high


def _found(half: HalfRates, seen: Collection[str] | None) -> str:
    """How many faulty networks were found; by what was measured here, where that is not all."""
    every, total = (sum(getattr(each, name) for each in half.found.values()) for name in ("count", "of"))
    said = f"Of {total} networks with one of {len(half.found)} faults"
    if seen is None:
        return f"{said} {every} were found."
    found = {fault: half.seen_by(seen, fault) for fault in half.found}
    seldom = [
        f"{fault.replace('_', ' ')} {number} of {half.found[fault].of}"
        for fault, number in found.items()
        if number < FEW * half.found[fault].of
    ]
    said += f" the numbers that were measured here find {sum(found.values())}; all that decide found {every}."
    return said + (f" Here these faults would mostly be missed: {', '.join(seldom)}." if seldom else "")


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> Rates:
    del changed  # a file that was written anew is read anew
    return Rates.model_validate(json.loads(path.read_text("utf-8")))


def outside_of(known: Range, measured: Measurements) -> str:
    """In what a network lies outside of the bench, in a clause; empty where it does not."""
    if measured.headline_score is not None or measured.frozen_baseline_score is not None:
        return "its score is not an accuracy, as those of the bench are"
    if measured.perplexity is not None or measured.headline_answers is not None:
        return "its samples have several answers each, where those of the bench have one"
    parts = []
    for name, value in _sizes(measured).items():
        low, high = getattr(known, name)
        # More samples than there make nothing less certain.
        if value is not None and (value < low or (value > high and name != "samples")):
            parts.append(f"it has {_counted_as(name, value)}, and the bench's have {low:,} to {high:,}")
    if measured.claimed_rule and not is_on_the_bench(measured.claimed_rule):
        parts.append(
            f"it is said to be trained by {shortened(measured.claimed_rule)}, and the bench's healthy ones are by "
            "backpropagation, FA and DFA"
        )
    return "; ".join(parts)


def not_on_record(measured: Measurements) -> str:
    """Which sizes of a network are not known, in a clause; empty where all are."""
    unknown = [NAMED.get(name, name) for name, value in _sizes(measured).items() if value is None]
    return f"the number of its {listed(unknown)} is not on record" if unknown else ""


def _counted_as(name: str, value: int) -> str:
    """`8 blocks`, `1 block`."""
    return f"{value:,} {ONE_OF[name] if value == 1 and name in ONE_OF else NAMED.get(name, name)}"


def _sizes(measured: Measurements) -> dict[str, int | None]:
    """By the names of the fields of `Range`."""
    return {
        "blocks": _blocks(measured),
        "classes": measured.classes,
        "widths": _width(measured),
        "samples": measured.samples or measured.headline_samples,
    }


def _width(measured: Measurements) -> int | None:
    """Of the widest site, as readouts read it."""
    widths = measured.site_features or (measured.readouts.widths if measured.readouts is not None else ())
    return max(widths, default=None)


def _blocks(measured: Measurements) -> int | None:
    if measured.last_site is not None:
        return measured.last_site
    sites = measured.sites or measured.residual_norms or measured.bp_grad_norms
    return len(sites) - 1 if sites else None
