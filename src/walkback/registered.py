"""What others have added in this process, or by installing a package: the state behind `walkback.registry`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from walkback.errors import WalkbackWarning

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

    try:
        return entry_points(group=f"walkback.{group}")
    except Exception:  # of one package whose file cannot be parsed, whatever it brings, and all others with it
        return list(_one_by_one(f"walkback.{group}"))


def _one_by_one(group: str) -> Iterator[EntryPoint]:
    """The same package by package, the first of each name; one whose entry points cannot be read is left out."""
    from importlib.metadata import distributions

    known = set[str]()
    for package in distributions():
        name = str(package.metadata["Name"])
        if name in known:
            continue
        known.add(name)
        try:
            yield from package.entry_points.select(group=group)
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            warnings.warn(
                f"the entry points of the package {name!r} cannot be read ({told}). It is left out; reinstall it.",
                WalkbackWarning,
                stacklevel=2,
            )
