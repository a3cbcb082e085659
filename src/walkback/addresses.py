"""`module:object`: what it is, whose word it may be imported on, and what is said where it cannot be.

Importing a module runs it. So an address is imported only where whoever runs walkback wrote it, on the command line or
in code, or installed a package that has it as an entry point.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable
from typing import Any

from walkback.errors import InputError, WalkbackError

_ALLOWED: set[str] = set()


def allow(*names: str | None) -> None:
    """Let these be imported where they are `module:object`: whoever runs walkback wrote them.

    Only for what was written on the command line or in code, never for what a file says.
    """
    _ALLOWED.update(name for name in names if name is not None and is_address(name))


def is_allowed(address: str) -> bool:
    """Whether whoever runs walkback wrote this address."""
    return address in _ALLOWED


def is_address(name: str) -> bool:
    """Whether a name has the form `package.module:object`."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*", name) is not None


def from_address(address: str) -> Any:
    """Import `module:object`."""
    module, _, attribute = address.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, [name for name in dir(found) if name[:1] != "_"], n=1)
            suggestion = f"Did you mean {near[0]!r}? " if near else ""
            raise InputError(f"{module} has no {attribute}. {suggestion}Expected module:object, an object of it.")
        found = getattr(found, part)
    return found


def imported(address: str, kind: str) -> Any:
    """Import `module:object` of another package; a failure raises an `InputError` that says what went wrong."""
    module = address.partition(":")[0]
    try:
        return run_theirs(lambda: from_address(address), f"the {kind} {address} cannot be imported")
    except InputError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name and f"{module}.".startswith(f"{missing.name}."):
            raise InputError(
                f"the {kind} {address} cannot be imported: there is no module {missing.name}. Install the package that "
                "has it, or run where it can be imported."
            ) from missing
        raise


def run_theirs(step: Callable[[], Any], what: str) -> Any:
    """Run code of another package; whatever it raises becomes an `InputError` of one line."""
    try:
        return step()
    except WalkbackError:
        raise
    except (Exception, SystemExit) as error:  # whatever a stranger's module raises
        raise InputError(f"{what}: it raised {type(error).__name__}: {' '.join(str(error).split())}") from error


def require_call(what: str, thing: Any, arguments: int, expected: str) -> None:
    """Raise where a thing cannot be called with that many arguments, all others having defaults."""
    if not callable(thing):
        raise InputError(f"{what} is {thing!r}; expected {expected}")
    import inspect

    try:
        inspect.signature(thing).bind(*[None] * arguments)
    except TypeError as error:
        raise InputError(f"{what} cannot be called with {arguments} argument: {error}; expected {expected}") from None
    except ValueError:  # what is written in C says nothing of its arguments
        return
