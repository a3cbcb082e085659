"""`walkback lab zoo`: the methods, architectures and data sets that there are, and the options of each."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walkback.addresses import imported, is_address
from walkback.cli.output import output
from walkback.lab.registry import ARCHITECTURES, DATASETS, METHODS
from walkback.registry import Registry, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

KINDS = {
    "methods": ("method_options", METHODS),
    "architectures": ("architecture_options", ARCHITECTURES),
    "data sets": ("data_options", DATASETS),
}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("zoo")(zoo)


def zoo(
    name: Annotated[str | None, typer.Argument(help="One of them, for all that is known of it.")] = None,
    options: Annotated[bool, typer.Option("--options", help="Show the options of each, with their defaults.")] = False,
) -> int:
    """List the methods, architectures and data sets, or show one of them with its options."""
    console = output()
    if name is not None and is_address(name):
        _kind_of(name).named(name)
    if name is not None:
        _show_one(console, name)
        return 0
    for kind, (section, registry) in KINDS.items():
        console.print(f"\n{kind}", style="bold")
        for entry in _usable(registry):
            _print_row(console, entry, _module_doc(registry, entry).splitlines()[0])
            if options:
                _print_options(console, section, entry)
    console.print("\n`walkback lab zoo NAME` shows one with its options; `walkback lab zoo --options` all of them.")
    return 0


def _kind_of(address: str) -> Registry:
    """Where `module:object` belongs: a class is a method; a data set, unlike an architecture, needs no argument."""
    import inspect

    thing = imported(address, "object")
    if isinstance(thing, type) or not callable(thing):
        return METHODS
    needed = [p for p in inspect.signature(thing).parameters.values() if p.default is p.empty]
    return ARCHITECTURES if needed else DATASETS


def _usable(registry: Registry) -> list[str]:
    """The names of what can be used; others' are loaded to see whether they can, walkback's own need no torch here."""
    others = set(registry) - set(registry.own)
    return [entry for entry, _ in registry.loaded()] if others else list(registry)


def _show_one(console: Console, name: str) -> None:
    owners = {entry: pair for pair in KINDS.values() for entry in _usable(pair[1])}
    owners |= {pair[1][entry]: pair for entry, pair in owners.items()}
    if name not in owners:
        from walkback.errors import UnknownName

        raise UnknownName(f"the zoo holds nothing called {name!r}. {did_you_mean(name, owners)}")
    section, registry = owners[name]
    doc = registry.load(name).__doc__ or ""
    console.print(f"{registry.kind} {name}\n", style="bold")
    console.print(_module_doc(registry, name), markup=False)
    console.print(f"\n{_unindented(doc)}\n", markup=False)
    _print_options(console, section, name)


def _print_options(console: Console, section: str, name: str) -> None:
    """One line for each option as --set takes it; this imports torch."""
    from walkback.lab.runs.options import SECTIONS, default_options

    for option, default in default_options(section, name).items():
        shown = default if isinstance(default, str) else json.dumps(default)
        console.print(f"    --set {SECTIONS[section]}.{option}={shown}", markup=False)


def _print_row(console: Console, name: str, sentence: str) -> None:
    from rich.table import Table

    row = Table.grid(padding=(0, 2))
    row.add_column(width=20)
    row.add_column()
    row.add_row(f"  {name}", sentence)
    console.print(row, markup=False)


def _module_doc(registry: Registry, name: str) -> str:
    """What a module says of itself, read from its source: importing it would import torch."""
    if name not in registry.own:
        return _own_doc(registry, name)
    import walkback

    module = registry[name].partition(":")[0].removeprefix("walkback.")
    source = Path(walkback.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    return ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or name


def _own_doc(registry: Registry, name: str) -> str:
    """What others say of theirs: the module, or else the object."""
    import inspect

    thing = registry.load(name)
    return inspect.getdoc(inspect.getmodule(thing)) or inspect.getdoc(thing) or name


def _unindented(doc: str) -> str:
    import inspect

    return inspect.cleandoc(doc)
