"""When each part of the bench was made and scored, as docs/VALIDITY.md tells it. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.validity.shipped import PANEL

THRESHOLDS_AT = ("6f7aac9", "2026-11-18T08:14:34+00:00")
"""The commit of the thresholds file since which no threshold has changed, and when it was."""
FIRST_HELD = "2026-11-18T14:19:55+00:00"
"""When the first network of the held part was finished, by the stamp of its record."""
ASIDE = {
    "2026-11-18T17:31:50+00:00": "Of the ten, 8 are among the 29 that count. The other 2 had failed the check of "
    "their fault, and had been replaced."
}
"""What a reader asks about an opening, by its date."""
CHANGED_SINCE = (
    "Since the records were made two diagnostics that decide were defined anew, without a new threshold. (ib) idle "
    "block is read from how much each block changes every sample (commit e343ab7), not from medians of norms any more. "
    "(u) update provenance is undecided where the head, which every rule trains alike, does not follow the claimed "
    "step either, and it counts layers that do not move (commit b70512d). The records hold what the older definitions "
    "measured. All of them were judged again: no outcome of any panel differs."
)
"""What is other in a measurement today than when the records were made."""


def told(openings: Sequence[Mapping[str, Any]]) -> list[str]:
    """When the held half was scored; of a second time, why, and what became other than it was."""
    if not openings:
        return ["The held part has not been opened."]
    first, *later = openings
    said = [
        f"The thresholds of {PANEL} were fitted on the part to fit on, and on nothing else. They were fixed before "
        f"any network of the held part was made: they have not changed since commit {THRESHOLDS_AT[0]} "
        f"({THRESHOLDS_AT[1]}), and the first held network was finished on {FIRST_HELD}.",
        f"The held part was first scored on {first['date']} at commit {first['commit']}.",
    ]
    for before, each in zip(openings, later, strict=False):
        changed = [
            f"{rule} found {was[name]} of {name} the first time and {now} the second"
            for rule, counts in each.get("counts", {}).items()
            for name, now in counts.items()
            if (was := before.get("counts", {}).get(rule, {})).get(name, now) != now
        ]
        said.append(
            f"It was scored again on {each['date']} at commit {each['commit']}. The reason on record: “{each['why']}” "
            f"{ASIDE.get(each['date'], '')}{' ' if each['date'] in ASIDE else ''}What changed: "
            f"{'; '.join(changed) or 'nothing'}."
        )
    return [*said, CHANGED_SINCE]
