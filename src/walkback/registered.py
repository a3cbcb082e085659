"""What others have added in this process, or by installing a package: the state behind `walkback.registry`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = (
    "diagnostics", "panels", "methods", "architectures", "datasets", "renderers", "figures", "lint_rules", "pitfalls",
)  # fmt: skip
"""What others can add to, each by entry points of the group `walkback.<name>` or by `register`."""

REGISTERED: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
"""Objects that this process registered, by group and name."""
_changes = 0


def changes() -> int:
    """How often anything was added or taken away: what is derived from registries holds as long as this does."""
    return _changes


def changed() -> None:
    """Say that something was."""
    global _changes
    _changes += 1


def installed(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group, of all packages that are installed."""
    # Imported here: it takes longer than all that `walkback --help` needs.
    from importlib.metadata import entry_points

    return entry_points(group=f"walkback.{group}")
