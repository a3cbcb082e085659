"""A table of names, each of which stands for an object: what `walkback.registry` is made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from walkback.addresses import allow, from_address, imported, is_address, is_allowed, run_theirs
from walkback.errors import InputError, UnknownName, WalkbackError, WalkbackWarning, did_you_mean
from walkback.extras import naming_extras
from walkback.registered import REGISTERED, changed, installed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OPEN: dict[str, Registry] = {}
"""The registries that others can add to, by group."""


class Registry(Mapping[str, str]):
    """A table of names, each pointing at an object that is imported when it is asked for.

    Args:
        kind: what a row is, in words.
        rows: walkback's own, `name: "module:object"`.
        group: which of `GROUPS` others add to it by; empty where it is closed.
        check: `"module:function"`, called with the name and the object of whatever others bring; it raises an
            `InputError` where that cannot be used.
    """

    def __init__(self, kind: str, rows: Mapping[str, str], group: str = "", check: str = "") -> None:
        self.kind, self.group = kind, group
        self._own = dict(rows)
        self._check = check
        self._found: dict[str, EntryPoint] | None = None
        self._objects: dict[str, Any] = {}
        self._broken: dict[str, str] = {}
        if group:
            OPEN[group] = self

    @property
    def own(self) -> tuple[str, ...]:
        """The names of walkback's own rows."""
        return tuple(self._own)

    def __getitem__(self, name: str) -> str:
        return self._rows()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def _rows(self) -> dict[str, str]:
        """Own rows, then what installed packages bring, what this process registered, and what it loaded by address."""
        rows = self._own | {name: point.value for name, point in self._points().items()}
        rows |= {name: _address(thing) for name, thing in self._registered.items()}
        rows |= {name: name for name in self._objects if ":" in name}
        return {name: row for name, row in rows.items() if name not in self._broken}

    @property
    def _registered(self) -> dict[str, Any]:
        return REGISTERED[self.group] if self.group else {}

    def _points(self) -> dict[str, EntryPoint]:
        if self._found is None:
            self._found = {}
            for point in installed(self.group) if self.group else ():
                if point.name in self._own or point.name in self._found:
                    self._leave_out(point, f"the name {point.name!r} is taken", hide=False)
                else:
                    self._found[point.name] = point
        return self._found

    def require(self, name: str) -> None:
        """Raise `UnknownName`, with a suggestion, for a name that is neither there nor an address that was allowed."""
        if name in self._own or name in self._rows():
            return
        if self.group and is_address(name):
            if is_allowed(name):
                return
            raise UnknownName(
                f"there is no {self.kind} called {name!r}, and what a file says is not imported. If you trust that "
                "module, name it where the command line takes a name, or install the package that brings it."
            )
        quoted = name if len(name) <= 60 else name[:57] + "…"
        why = f"the {self.kind} {quoted!r} cannot be used: {self._broken[name]}." if name in self._broken else ""
        raise UnknownName(why or f"there is no {self.kind} called {quoted!r}. {did_you_mean(name, self._rows())}")

    def load(self, name: str) -> Any:
        """The object behind a name or, of open registries, behind a `module:object` that was allowed.

        An unknown name raises `UnknownName` with a suggestion.
        """
        self.require(name)
        name = self._row_of(name)
        if name in self._own:
            with naming_extras():
                return from_address(self._own[name])
        if name not in self._objects:
            self._objects[name] = self._brought(name)
            if ":" in name:
                changed()
        return self._objects[name]

    def named(self, name: str) -> Any:
        """The object behind what whoever runs walkback wrote: a name, or `module:object`."""
        allow(name)
        return self.load(name)

    def _row_of(self, name: str) -> str:
        """The row that an address stands for, where there is one: one object has one name."""
        if ":" not in name:
            return name
        return next((row for row, address in self._rows().items() if address == name), name)

    def _brought(self, name: str) -> Any:
        """What somebody else brings, checked."""
        address = self._points()[name].value if name in self._points() else name
        thing = self._registered[name] if name in self._registered else imported(address, self.kind)
        if self._check:
            check = from_address(self._check)
            run_theirs(lambda: check(name, thing), f"the {self.kind} {name!r} cannot be checked")
        return thing

    def loaded(self) -> Iterator[tuple[str, Any]]:
        """Every name with its object; a plugin that cannot be used is left out, with one warning of one line."""
        for name in list(self._rows()):
            try:
                yield name, self.load(name)
            except WalkbackError as error:
                if name in self._own or name in self._registered:
                    raise
                self._leave_out(self._points()[name], str(error))

    def others(self, name: str) -> list[tuple[str, Any]]:
        """Walkback's own objects, and whatever else was loaded before, under other names than this one."""
        own = [(each, self.load(each)) for each in self._own]
        return [(other, thing) for other, thing in (*own, *self._objects.items()) if other != name]

    def _leave_out(self, point: EntryPoint, why: str, hide: bool = True) -> None:
        package = point.dist.name if point.dist is not None else "a package"
        reason = " ".join(why.split())
        if hide:
            self._broken[point.name] = reason
            changed()
        told = f"the {self.kind} {point.name!r} of {package} ({point.value}) is left out: {reason}"
        warnings.warn(told, WalkbackWarning, stacklevel=4)

    def refuse_own(self, name: str) -> None:
        """Raise `InputError` for a name of walkback's own."""
        if name in self._own:
            raise InputError(f"there is a {self.kind} {name!r} already. Register yours under another name.")

    def forget(self, name: str) -> None:
        """Drop what was loaded under a name, which now is another object's."""
        self._objects.pop(name, None)
        self._broken.pop(name, None)

    def find_again(self) -> None:
        """Look for installed plugins anew, and forget what was found to be broken."""
        self._found = None
        self._broken.clear()
        self._objects.clear()
        changed()


def _address(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__qualname__)}"
