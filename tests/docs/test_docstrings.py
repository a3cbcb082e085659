"""The API reference: each docstring says what its signature has, its example runs, and nothing is left out."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import runpy
import textwrap
from pathlib import Path

import pytest
from pydantic import BaseModel

import walkback
import walkback.errors
import walkback.lab
from walkback.cli import main

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "api_table.py"))
TEXT = TOOL["PAGE"].read_text(encoding="utf-8")
ENTRIES = {entry.path: entry for entry in TOOL["entries"](TEXT)}
SECTIONS = ("Formula", "Args", "Returns", "Yields", "Raises", "Cost", "Caveat", "Examples")
"""In this order."""
_HEADING = re.compile(r"^(\w+):(?: .*)?$")
_ITEM = re.compile(r"^    (\*{0,2}\w+): \S")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NO_EXAMPLE = ("Errors", "Parts of records")
"""Sections of names that the examples of other sections use."""


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


def test_every_public_name_is_on_the_page():
    shown = {entry.imported_as for entry in ENTRIES.values()}
    names = {f"walkback.{name}" for name in walkback.__all__ if name != "__version__"}
    names |= {f"walkback.lab.{name}" for name in walkback.lab.__all__}
    named = vars(walkback.errors).items()
    names |= {f"walkback.errors.{name}" for name, one in named if inspect.isclass(one) and issubclass(one, Exception)}
    names |= {
        f"walkback.integrations.{file.stem}.{node.name}"
        for file in (ROOT / "src" / "walkback" / "integrations").glob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Callback", "Log"))
    }
    assert names - shown == set()


def test_the_list_of_names_is_that_of_the_docstrings():
    assert TOOL["with_table"](TEXT) == TEXT, "run python tools/api_table.py"


@pytest.mark.parametrize("path", ENTRIES)
def test_what_the_page_shows_is_what_a_reader_imports(path):
    assert thing_at(path) is thing_at(ENTRIES[path].imported_as)


@pytest.mark.parametrize("path", ENTRIES)
def test_a_docstring_begins_with_a_sentence_and_its_sections_are_in_order(path):
    thing = thing_at(path)
    members = dict(methods(thing)) if inspect.isclass(thing) else {}
    for docstring in (docstring_of(thing), *(function.__doc__ for function in members.values())):
        if not docstring:  # of a constant, which the table takes from the source
            continue
        first, *rest = inspect.cleandoc(docstring).splitlines()
        assert first.endswith((".", "?", ":")), first
        assert not rest or rest[0] == "", first
        found = [heading for heading in sections(docstring) if heading]
        assert found == sorted(found, key=SECTIONS.index), first


@pytest.mark.parametrize(("label", "function", "docstring", "builds"), [pytest.param(*f, id=f[0]) for f in functions()])
def test_a_docstring_has_what_its_signature_has(label, function, docstring, builds):
    found, signature = sections(docstring), inspect.signature(function)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    taken = [stars.get(p.kind, "") + name for name, p in signature.parameters.items() if name not in ("self", "cls")]
    assert sorted(items(found, "Args")) == sorted(taken)
    nothing = builds or signature.return_annotation in (None, "None")
    assert ("Returns" in found or "Yields" in found) != nothing
    assert ("Yields" in found) == inspect.isgeneratorfunction(function)


def named_defaults(function):
    """Parameter → value, where the signature on the page shows the name of a constant."""
    taken = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].args
    by_place = taken.args[len(taken.args) - len(taken.defaults) :]
    pairs = zip((*by_place, *taken.kwonlyargs), (*taken.defaults, *taken.kw_defaults), strict=True)
    values = inspect.signature(function).parameters
    return {argument.arg: values[argument.arg].default for argument, node in pairs if isinstance(node, ast.Name)}


@pytest.mark.parametrize(("label", "function", "docstring", "builds"), [pytest.param(*f, id=f[0]) for f in functions()])
def test_a_default_that_the_signature_names_is_said_as_a_number(label, function, docstring, builds):
    said = "\n".join(sections(docstring).get("Args", ()))
    for name, value in named_defaults(function).items():
        item = re.search(rf"^    {name}: (.*?)(?=^    \w|\Z)", said, re.MULTILINE | re.DOTALL)
        assert f"{value:g}" in item[1], name


@pytest.mark.parametrize("path", ENTRIES)
def test_what_is_raised_is_an_error_of_walkback(path):
    thing = thing_at(path)
    members = dict(methods(thing)) if inspect.isclass(thing) else {}
    for docstring in (docstring_of(thing), *(function.__doc__ for function in members.values())):
        raised = items(sections(docstring), "Raises")
        assert bool(raised) == ("Raises" in sections(docstring))
        for name in raised:
            assert issubclass(getattr(walkback.errors, name), walkback.errors.WalkbackError)


@pytest.mark.parametrize("path", [path for path in ENTRIES if inspect.isclass(thing_at(path))])
def test_every_field_and_property_says_what_it_is(path):
    kind = thing_at(path)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node, after in zip(body, [*body[1:], None], strict=True):
        names = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        for name in (target.id for target in names if isinstance(target, ast.Name)):
            inherited = any(hasattr(below, name) or name in _annotated(below) for below in own_classes(kind)[1:])
            if not name.startswith("_") and name != "model_config" and not inherited:
                assert isinstance(after, ast.Expr), name
                assert isinstance(after.value, ast.Constant), name
    for name, member in vars(kind).items():
        if isinstance(member, property) and not name.startswith("_"):
            assert member.__doc__, name


def _annotated(kind):
    return vars(kind).get("__annotations__", {})


@pytest.mark.parametrize("path", ENTRIES)
def test_the_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = thing_at(path)
    members = dict(methods(thing)) if inspect.isclass(thing) else {}
    docstrings = {path: docstring_of(thing)} | {f"{path}.{name}": one.__doc__ for name, one in members.items()}
    done = 0
    for label, docstring in docstrings.items():
        parsed = doctest.DocTestParser().get_doctest(docstring or "", {"__name__": label}, label, None, 0)
        told = []
        result = doctest.DocTestRunner(optionflags=FLAGS).run(parsed, out=told.append)
        assert result.failed == 0, "".join(told)
        done += result.attempted
    assert done or ENTRIES[path].section in NO_EXAMPLE or not docstring_of(thing)


@pytest.mark.parametrize("record", ["DiagnosticReport", "Measurements", "Reading", "FrozenBaseline", "SeedSummary"])
def test_a_schema_describes_the_record_and_not_the_class(record, capsys):
    main.app(["schema", record])
    printed = capsys.readouterr().out
    assert '"description"' in printed
    assert not re.search(r">>>|Raises:|Examples:", printed)
