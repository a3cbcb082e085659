"""Names of diagnostics, panels, methods and whatever else can be added, looked up lazily.

One row is `name: "module:object"`. Nothing is imported until a name is asked for, so listing what there is costs no
import of torch. Beside its own rows a registry holds what others bring: objects that a running process registers,
and those of installed packages, by entry points of the group `walkback.<group>`. A plugin that cannot be loaded is
told in one line and left out; the rest goes on.
"""

from __future__ import annotations

import difflib
import importlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from walkback.errors import InputError, UnknownName, WalkbackError, WalkbackWarning
from walkback.extras import naming_extras

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = (
    "diagnostics", "panels", "methods", "architectures", "datasets", "renderers", "figures", "lint_rules", "pitfalls",
)  # fmt: skip
"""What others can add to, each by entry points of the group `walkback.<name>` or by `register`."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to end an error message with: the nearest known name, then all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    suggestion = f"Did you mean {near[0]!r}? " if near else ""
    return f"{suggestion}Known: {', '.join(names)}."


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
            _OPEN[group] = self
            for name in _REGISTERED[group]:
                self._refuse_own(name)

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
        """Own rows, then what installed packages bring, then what this process registered."""
        rows = self._own | {name: point.value for name, point in self._points().items()}
        registered = _REGISTERED[self.group] if self.group else {}
        rows |= {name: _address(thing) for name, thing in registered.items()}
        return {name: row for name, row in rows.items() if name not in self._broken}

    def _points(self) -> dict[str, EntryPoint]:
        if self._found is None:
            self._found = {}
            for point in _installed(self.group) if self.group else ():
                if point.name in self._own or point.name in self._found:
                    self._leave_out(point, f"the name {point.name!r} is taken", hide=False)
                else:
                    self._found[point.name] = point
        return self._found

    def require(self, name: str) -> None:
        """Raise `UnknownName`, with a suggestion, for a name that is neither there nor `module:object`."""
        if name in self._rows() or (self.group and is_address(name)):
            return
        quoted = name if len(name) <= 60 else name[:57] + "…"
        why = f"the {self.kind} {quoted!r} cannot be used: {self._broken[name]}." if name in self._broken else ""
        raise UnknownName(why or f"there is no {self.kind} called {quoted!r}. {did_you_mean(name, self._rows())}")

    def load(self, name: str) -> Any:
        """The object behind a name or, of open registries, behind `module:object`.

        An unknown name raises `UnknownName` with a suggestion.
        """
        self.require(name)
        if name in self._own:
            with naming_extras():
                return from_address(self._own[name])
        if name not in self._objects:
            self._objects[name] = self._brought(name)
        return self._objects[name]

    def _brought(self, name: str) -> Any:
        """What somebody else brings, checked."""
        registered = _REGISTERED[self.group]
        thing = registered[name] if name in registered else self._imported(name)
        if self._check:
            from_address(self._check)(name, thing)
        return thing

    def _imported(self, name: str) -> Any:
        address = self._points()[name].value if name in self._points() else name
        try:
            return from_address(address)
        except WalkbackError:
            raise
        except Exception as error:  # whatever a stranger's module raises when it is imported
            raise InputError(
                f"the {self.kind} {address} cannot be imported ({type(error).__name__}: {error}). Expected "
                "module:object, where importing the module works."
            ) from error

    def loaded(self) -> Iterator[tuple[str, Any]]:
        """Every name with its object; a plugin that cannot be used is told once, in a line, and left out."""
        for name in list(self._rows()):
            try:
                yield name, self.load(name)
            except WalkbackError as error:
                if name in self._own or name in _REGISTERED[self.group]:
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
            _changed()
        told = f"the {self.kind} {point.name!r} of {package} ({point.value}) is left out: {reason}"
        warnings.warn(told, WalkbackWarning, stacklevel=4)

    def _refuse_own(self, name: str) -> None:
        if name in self._own:
            del _REGISTERED[self.group][name]
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
        _changed()


def _installed(group: str) -> Iterable[EntryPoint]:
    # Imported here: it takes longer than all that `walkback --help` needs.
    from importlib.metadata import entry_points

    return entry_points(group=f"walkback.{group}")


_OPEN: dict[str, Registry] = {}
_REGISTERED: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
_changes = 0


def changes() -> int:
    """How often anything was added or taken away: what is derived from registries holds as long as this does."""
    return _changes


def _changed() -> None:
    global _changes
    _changes += 1


def register(group: str, name: str, thing: Any) -> Any:
    """Add an object to what walkback knows, in this process: `register("diagnostics", "effective_rank", Rank)`.

    Args:
        group: one of `GROUPS`.
        name: what it is asked for by. Registering a name again replaces the object; walkback's own names stay.
        thing: the object: a `Diagnostic`, a `Panel`, a `Method`, a function, as docs/extend says for each.

    Returns:
        The object, so that this can be used in a decorator.
    """
    if group not in GROUPS:
        raise UnknownName(f"there is nothing to add called {group!r}. {did_you_mean(str(group), GROUPS)}")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9]\w{0,60}", name):
        raise InputError(f"the name to register is {name!r}; expected letters, digits and _ such as effective_rank.")
    before = _REGISTERED[group].get(name)
    _REGISTERED[group][name] = thing
    registry = _OPEN.get(group)
    if registry is not None:
        registry._refuse_own(name)
        registry.forget(name)
        _changed()
        try:
            registry.load(name)
        except WalkbackError:
            unregister(group, name)
            if before is not None:
                _REGISTERED[group][name] = before
            raise
    _changed()
    return thing


def unregister(group: str, name: str) -> None:
    """Take away what `register` added."""
    _REGISTERED[group].pop(name, None)
    if group in _OPEN:
        _OPEN[group].forget(name)
    _changed()


def is_address(name: str) -> bool:
    """Whether a name has the form `package.module:object`."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*", name) is not None


def from_address(address: str) -> Any:
    """Import `module:object`."""
    module, _, attribute = address.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(f"{module} has no {attribute}. Expected module:object, with an object of that module.")
        found = getattr(found, part)
    return found


def _address(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__qualname__)}"


DIAGNOSTICS = Registry(
    "diagnostic",
    {
        "residual_growth": "walkback.protocol.diagnostics.residual_growth:ResidualGrowth",
        "gradient_floor": "walkback.protocol.diagnostics.gradient_floor:GradientFloor",
        "direction_drift": "walkback.protocol.diagnostics.direction_drift:DirectionDrift",
        "frozen_margin": "walkback.protocol.diagnostics.frozen_margin:FrozenMargin",
        "layer_cosine": "walkback.protocol.diagnostics.layer_cosine:LayerCosine",
        "perturbation": "walkback.protocol.diagnostics.perturbation:Perturbation",
        "nudge": "walkback.protocol.diagnostics.nudge:Nudge",
    },
    group="diagnostics",
    check="walkback.protocol.diagnostics.check:check_diagnostic",
)

PANELS = Registry(
    "panel",
    {
        "april2026": "walkback.protocol.panels.april2026:APRIL_2026",
        "june2026": "walkback.protocol.panels.june2026:JUNE_2026",
    },
    group="panels",
    check="walkback.protocol.panels.base:check_panel",
)

RENDERERS = Registry(
    "renderer",
    {
        "text": "walkback.present.text:render",
        "markdown": "walkback.present.markdown:render",
        "latex": "walkback.present.latex:render",
        "html": "walkback.present.html:render",
    },
    group="renderers",
)
