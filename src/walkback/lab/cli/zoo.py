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

MOST_WIDTH = 40
"""Of the column of names: those that others give may be of any length."""
KINDS = {
    "methods": ("method_options", METHODS),
    "architectures": ("architecture_options", ARCHITECTURES),
    "data sets": ("data_options", DATASETS),
}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("zoo")(zoo)


def zoo(
    name: Annotated[str | None, typer.Argument(help="A method, architecture or data set to describe in full.")] = None,
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
        entries = _usable(registry)
        for entry in entries:
            said = _said_by(registry, entry) if registry is METHODS else []
            _print_row(console, entry, [_module_doc(registry, entry).splitlines()[0], *said], max(map(len, entries)))
            if options:
                _print_options(console, section, entry)
    console.print(
        "\nA method is defined on every architecture, but where it says otherwise. `walkback lab zoo NAME` shows one "
        "with its options; `walkback lab zoo --options` all of them."
    )
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

        raise UnknownName(f"the zoo has nothing called {name!r}. {did_you_mean(name, owners)}")
    section, registry = owners[name]
    doc = registry.load(name).__doc__ or ""
    console.print(f"{registry.kind} {name}\n", style="bold")
    console.print(_module_doc(registry, name), markup=False)
    console.print(f"\n{_unindented(doc)}\n", markup=False)
    if registry is METHODS:
        _print_method(console, name)
    _print_options(console, section, name)


def _print_method(console: Console, name: str) -> None:
    """Paper, Γ, null, and what every architecture says to it; this imports torch."""
    from walkback.lab.zoo import defined_on

    method = METHODS.load(name)
    null = "fresh draws of the feedback" if hasattr(method, "redraw") else method.no_null
    for line in (*_said_by(METHODS, name), f"null of Γ: {null}" if null and method.has_credit else ""):
        if line:
            console.print(line, markup=False)
    for architecture, why_not in defined_on(name).items():
        console.print(f"    --arch {architecture}{f': not defined. {why_not}' if why_not else ''}", markup=False)
    console.print()


def _print_options(console: Console, section: str, name: str) -> None:
    """One line for each option as --set takes it; this imports torch."""
    from walkback.lab.runs.options import SECTIONS, default_options

    for option, default in default_options(section, name).items():
        shown = default if isinstance(default, str) else json.dumps(default)
        console.print(f"    --set {SECTIONS[section]}.{option}={shown}", markup=False)


def _print_row(console: Console, name: str, sentences: list[str], width: int) -> None:
    from rich.table import Table

    row = Table.grid(padding=(0, 2))
    row.add_column(width=min(2 + width, MOST_WIDTH))
    row.add_column()
    for number, sentence in enumerate(sentences):
        row.add_row("" if number else f"  {name}", sentence)
    console.print(row, markup=False)


SAID = {"paper": "paper", "gamma": "Γ", "defined_on": "defined on"}
"""What a method says of itself, and what it is called here."""


def _said_by(registry: Registry, name: str) -> list[str]:
    """The sentences of a method; walkback's own are read from their source, which imports no torch."""
    if name in registry.own:
        said = _class_words(*_source_of(registry, name))
    else:
        said = {word: getattr(registry.load(name), word) for word in SAID}
    return [f"{called}: {said[word]}" for word, called in SAID.items() if said.get(word)]


def _class_words(tree: ast.Module, name: str) -> dict[str, str]:
    """The class's own attributes that are plain strings."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    fields = [node for one in classes for node in one.body if isinstance(node, ast.AnnAssign)]
    return {
        node.target.id: node.value.value
        for node in fields
        if isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def _source_of(registry: Registry, name: str) -> tuple[ast.Module, str]:
    """The source of one of walkback's own, and the name of its object there."""
    import walkback

    module, _, thing = registry[name].partition(":")
    path = Path(walkback.__file__).parent.joinpath(*module.removeprefix("walkback.").split(".")).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8")), thing


def _module_doc(registry: Registry, name: str) -> str:
    """What a module says of itself, read from its source: importing it would import torch."""
    if name not in registry.own:
        return _own_doc(registry, name)
    return ast.get_docstring(_source_of(registry, name)[0]) or name


def _own_doc(registry: Registry, name: str) -> str:
    """What others say of theirs: the module, or else the object."""
    import inspect

    thing = registry.load(name)
    return inspect.getdoc(inspect.getmodule(thing)) or inspect.getdoc(thing) or name


def _unindented(doc: str) -> str:
    import inspect

    return inspect.cleandoc(doc)
