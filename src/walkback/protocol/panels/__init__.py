"""Panels: named lists of diagnostics, and the rule that makes a verdict of their readings. One file each."""

from __future__ import annotations

from walkback.protocol.panels.base import Member, Panel
from walkback.protocol.words import PUBLISHED_PANEL
from walkback.registry import PANELS

DECIDING = PUBLISHED_PANEL
"""The panel that decides where none is asked for."""


def panel_named(name: str | None) -> Panel:
    """A panel by its name, or by the `module:object` that a caller wrote; the deciding one where none is given."""
    found: Panel = PANELS.named(name or DECIDING)
    return found


def panel_on_record(name: str | None) -> Panel:
    """The panel that a record names; what it says is never imported."""
    found: Panel = PANELS.load(name or DECIDING)
    return found


__all__ = ["DECIDING", "Member", "Panel", "panel_named", "panel_on_record"]
