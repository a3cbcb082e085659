"""What docs/api.md shows, and the docstrings of it in parts."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "api_table.py"))
TEXT = TOOL["PAGE"].read_text(encoding="utf-8")
ENTRIES = {entry.path: entry for entry in TOOL["entries"](TEXT)}
SECTIONS = ("Formula", "Args", "Returns", "Yields", "Raises", "Cost", "Caveat", "Examples")
"""In this order."""
_HEADING = re.compile(r"^(\w+):(?: .*)?$")
_ITEM = re.compile(r"^    (\*{0,2}\w+): \S")


def thing_at(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def sections(docstring):
    """Heading → its lines; several sections with one heading are joined. What comes first is under ""."""
    found = {"": []}
    heading = ""
    for line in inspect.cleandoc(docstring or "").splitlines():
        match = _HEADING.match(line)
        if match and match[1] in SECTIONS:
            heading = match[1]
            found.setdefault(heading, [])
        else:
            found[heading].append(line)
    return found


def items(found, heading):
    return [match[1] for line in found.get(heading, ()) if (match := _ITEM.match(line))]


def own_classes(kind):
    return [each for each in kind.__mro__ if each.__module__.split(".")[0] == "walkback"]


def is_record(kind):
    return issubclass(kind, BaseModel | tuple) or hasattr(kind, "__dataclass_fields__")


def is_protocol(kind):
    return getattr(kind, "_is_protocol", False)


def unwrapped(member):
    """The function behind a method of any kind; None for all else."""
    member = member.__func__ if isinstance(member, staticmethod | classmethod) else member
    member = inspect.unwrap(member) if callable(member) else member
    return member if inspect.isfunction(member) else None


def methods(kind):
    """(name, function) of the public methods that it, or a class of walkback below it, defines first."""
    for each in own_classes(kind):
        below = each.__mro__[1:]
        for name, member in vars(each).items():
            function = unwrapped(member)
            if function is not None and not name.startswith("_") and not any(name in vars(b) for b in below):
                yield name, function


def functions():
    """(label, function, docstring, whether it is a constructor) of everything with parameters that the page shows."""
    for path in ENTRIES:
        thing = thing_at(path)
        if inspect.isclass(thing):
            yield from ((f"{path}.{name}", function, function.__doc__, False) for name, function in methods(thing))
            begin = next((vars(c)["__init__"] for c in own_classes(thing) if "__init__" in vars(c)), None)
            if begin is not None and not is_record(thing) and not is_protocol(thing):
                yield path, begin, thing.__doc__, True
        elif callable(thing):
            yield path, function_of(thing), docstring_of(thing), False


def function_of(thing):
    """A fixture of pytest is an object around its function."""
    return getattr(thing, "_fixture_function", None) or inspect.unwrap(thing)


def docstring_of(thing):
    return thing.__doc__ if inspect.isclass(thing) else function_of(thing).__doc__ if callable(thing) else ""
