"""The table of faults on docs/VALIDITY.md: what is wrong, how it is made, and what is meant to find it. No torch."""

from __future__ import annotations

from walkback.lab.validity.conditions import FAULTS, condition_named
from walkback.lab.validity.quantities import with_name
from walkback.lab.validity.scoring import meant_letters
from walkback.present.page import Grid, Heading


def faults() -> list[str | Grid | Heading]:
    """Its heading and the table."""
    conditions = [condition_named(name) for name in FAULTS]
    lines = [
        [c.name, c.family, c.title, c.made, f"{c.dial_is}: {', '.join(f'{dial:g}' for dial in c.dials)}",
         ", ".join(map(with_name, meant_letters(c.name))) or "none", c.unseen or "–"]
        for c in conditions
    ]  # fmt: skip
    headings = ("fault", "family", "what is wrong", "how it is made", "dial", "meant to find it", "what cannot be seen")
    return [Heading("The faults"), Grid(headings, lines, "lllllll")]
