"""The options by which a method is as the source study defines it. Importing this imports no torch."""

from __future__ import annotations

from typing import Any


def source_options(method: str) -> dict[str, Any]:
    """The options called `source` of a method."""
    return {}
