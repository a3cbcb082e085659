"""Libraries that only an extra of walkback brings, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from walkback.errors import MissingLibrary


def optional(module: str, extra: str) -> Any:
    """Import a module; where its library is not there, say which command installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(
            f"{module.partition('.')[0]} cannot be imported ({error}). Install it with: pip install 'walkback[{extra}]'"
        ) from error
