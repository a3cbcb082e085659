"""The two files that ship with the panel `calibrated`: its thresholds, and how often it was right. No torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.validity.conditions import CONDITIONS, FAULTS, condition_named
from walkback.lab.validity.fitting import Decider
from walkback.lab.validity.rates import Rate
from walkback.lab.validity.record import NetworkRecord
from walkback.lab.validity.scoring import flagged, healthy, of_fault, undecided, without_bp
from walkback.lab.validity.split import Half
from walkback.lab.validity.table import Row
from walkback.protocol.panels.rates import Counted, HalfRates, PanelRates, Range, Rates
from walkback.registry import PANELS

PANEL = "calibrated"
VERSION = 1
"""Of the panel: raised where its thresholds or deciders change after they were published."""


def thresholds_file(deciders: Sequence[Decider], rows: Sequence[Row], rule: str, digest: str) -> str:
    """The text of calibrated.json, with the digests of the written rule and of the records that it comes from."""
    content: dict[str, Any] = {
        "version": VERSION,
        "made_by": "walkback lab validity --fit",
        "rule": {"file": "results/validity/RULE.md", "sha256": rule},
        "records": {"folder": "results/validity/records", "sha256": digest},
        "networks": {"healthy": len(healthy(rows)), "faulty": len(rows) - len(healthy(rows))},
        "deciders": [_plain(decider) for decider in deciders],
    }
    return json.dumps(content, indent=1) + "\n"


def _plain(decider: Decider) -> dict[str, Any]:
    candidate = decider.candidate
    return {
        "diagnostics": list(candidate.diagnostics),
        "thresholds": list(candidate.thresholds),
        "group": candidate.group,
        "test": candidate.test,
        "fires": ">" if candidate.above else "<",
        "threshold": decider.threshold,
        "guard": candidate.guard,
    }


def rates_file(tables: Mapping[Half, Sequence[Row]], known: Range, deciders: Sequence[Decider]) -> str:
    """The text of calibrated_rates.json; a half without a table has no rates."""
    halves = {half: half_rates(rows, deciders) for half, rows in tables.items() if rows}
    published = {
        name: panel_rates(rows, name) for name in PANELS if name != PANEL and (rows := tables.get("held"))
    }  # fmt: skip
    return json.dumps(Rates(version=VERSION, range=known, published=published, **halves).to_dict(), indent=1) + "\n"


def panel_rates(rows: Sequence[Row], panel: str) -> PanelRates:
    """What a published panel did on the half that is held."""
    meant = [fault for fault in FAULTS if condition_named(fault).found_by]
    alarms, found = flagged(healthy(rows), panel), [flagged(of_fault(rows, fault), panel) for fault in meant]
    pooled = Rate(sum(rate.hits for rate in found), sum(rate.of for rate in found))
    local = flagged(without_bp(rows), panel)
    return PanelRates(
        flagged=_counted(alarms, alarms.at_most),
        local=_counted(local, local.at_most),
        found=_counted(pooled, pooled.at_least),
    )


def half_rates(rows: Sequence[Row], deciders: Sequence[Decider]) -> HalfRates:
    """What the panel did on a half."""
    alarms, local = flagged(healthy(rows), PANEL), flagged(without_bp(rows), PANEL)
    found = {fault: flagged(of_fault(rows, fault), PANEL) for fault in FAULTS if of_fault(rows, fault)}
    meant = {fault for fault in found if any(d.candidate.meant_for(fault) for d in deciders)}
    return HalfRates(
        flagged=_counted(alarms, alarms.at_most),
        local=_counted(local, local.at_most),
        incomplete=undecided(healthy(rows), PANEL),
        found={fault: _counted(rate, rate.at_least) for fault, rate in found.items() if fault in meant},
        unseen={fault: _counted(rate, rate.at_least) for fault, rate in found.items() if fault not in meant},
        fired={name: _together(of_fault(rows, name)) for name in CONDITIONS if of_fault(rows, name)},
    )


def _together(rows: Sequence[Row]) -> dict[str, int]:
    """How often which deciders of the panel fired together."""
    return dict(sorted(Counter(row.decided_by.get(PANEL, "") for row in rows).items()))


def _counted(rate: Rate, bound: float) -> Counted:
    return Counted(count=rate.hits, of=rate.of, bound=round(bound, 4))


def range_of(records: Sequence[NetworkRecord]) -> Range:
    """The sizes of healthy networks of the bench."""
    reports = [record.report for record in records if record.report is not None]
    blocks = [len(report.sites or ()) - 1 for report in reports]
    widths = [max(report.readouts.widths) for report in reports if report.readouts is not None]
    samples = [report.samples or 0 for report in reports]
    classes = [record.classes for record in records]
    low_high = [(min(each), max(each)) for each in (blocks, widths, classes, samples)]
    return Range(blocks=low_high[0], widths=low_high[1], classes=low_high[2], samples=low_high[3])
